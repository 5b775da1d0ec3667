import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const migrations = fileURLToPath(new URL('../migrations/', import.meta.url))
const mostLines = 80
/** Longer lines could be used to evade the limit of lines. */
const mostColumns = 200

interface Statement {
  file: string
  /** The first words of the statement, such as `create or replace function`. */
  kind: string
  /** The name of the created object. */
  name: string
  /** The text without comments. Strings stay, because they can contain dynamic SQL. */
  text: string
  lines: string[]
}

/** Splits SQL at semicolons outside of strings, function bodies and comments. */
function statementsOf(file: string, sql: string): Statement[] {
  const parts: string[] = ['']
  for (const [token] of sql.matchAll(/--.*|'(?:[^']|'')*'|\$(\w*)\$[^]*?\$\1\$|[^]/g)) {
    parts[parts.length - 1] += token
    if (token === ';') parts.push('')
  }
  return parts.flatMap((part) => {
    const text = part.replaceAll(/--.*$/gm, '').trim()
    if (text === '') return []
    const [, kind = text, name = ''] =
      /^((?:create|drop)(?: \w+)*? (?:function|procedure|view|trigger|aggregate|rule|table|index|type|domain|operator|cast)(?: if exists)?) (\w+)/i.exec(
        text,
      ) ?? []
    return [{ file, kind: kind.toLowerCase(), name, text, lines: part.trim().split('\n') }]
  })
}

const read = (file: string) => statementsOf(file, readFileSync(path.join(migrations, file), 'utf8'))
const files = readdirSync(migrations, { encoding: 'utf8', recursive: true }).filter((name) => name.endsWith('.sql'))
const rebuilt = files
  .filter((name) => name.startsWith('functions/'))
  .toSorted()
  .flatMap(read)
const numbered = files
  .filter((name) => /^\d{4}_/.test(name))
  .toSorted()
  .flatMap(read)

interface Call {
  from: string
  to: string
}

/**
 * The calls from one file to another, each once. A statement calls the functions in its text, the views that it reads, and the triggers of
 * the tables that it writes to.
 */
function callsOf(statements: Statement[]): Call[] {
  const is = (noun: string) => (statement: Statement) =>
    statement.kind.startsWith('create') && statement.kind.endsWith(noun)
  const functions = statements.filter((statement) => is('function')(statement) || is('aggregate')(statement))
  const places = new Map([
    ...Map.groupBy(functions, ({ name }) => `${name}(`),
    ...Map.groupBy(statements.filter(is('view')), ({ name }) => name),
  ])
  // A trigger that calls nothing and writes nothing is a constraint on its row.
  const acts = ({ text }: Statement) =>
    /\b(insert into|update|delete from|merge into)\s+\w/i.test(text) ||
    Array.from(text.matchAll(/\b(\w+)\s*\(/g)).filter(([, name = '']) => places.has(`${name.toLowerCase()}(`)).length >
      1
  const triggers = statements.filter(is('trigger')).flatMap(({ text }) => {
    const [, events = '', table = '', called = ''] =
      /\b(?:before|after|instead of)\s+([^]*?)\s+on\s+(\w+)[^]*\bexecute\s+(?:function|procedure)\s+(\w+)/i.exec(
        text,
      ) ?? []
    const isConstraint = !(places.get(`${called}(`) ?? []).some(acts)
    return isConstraint
      ? []
      : [{ table, called: `${called}(`, events: events.toLowerCase().match(/insert|update|delete|truncate/g) ?? [] }]
  })
  const named = (text: string) => [
    ...Array.from(text.matchAll(/\b(\w+)"?\s*\(/g), ([, name = '']) => `${name.toLowerCase()}(`),
    ...Array.from(text.matchAll(/\w+/g), ([name]) => name.toLowerCase()),
    ...Array.from(
      text.matchAll(/\b(insert into|update|delete from|merge into|truncate)\s+(?:only\s+)?"?(\w+)/gi),
    ).flatMap(([, verb = '', table = '']) =>
      triggers
        .filter((trigger) => trigger.table === table.toLowerCase())
        .filter(
          ({ events }) =>
            events.some((event) => verb.toLowerCase().startsWith(event)) ||
            (/^(insert|merge)/i.test(verb) && /\b(do update|then update|then delete)\b/i.test(text)),
        )
        .map(({ called }) => called),
    ),
  ]
  const calls = statements
    .filter(({ kind }) => kind.startsWith('create'))
    .flatMap(({ file, text }) =>
      [...new Set(named(text))]
        .flatMap((name) => places.get(name) ?? [])
        .filter((to) => to.file !== file)
        .map((to) => [`${file} calls ${to.file}`, { from: file, to: to.file }] as const),
    )
  return [...new Map(calls).values()]
}

/**
 * A folder with a number calls only itself and lower numbers. A folder without a number can call any folder, and numbered folders never
 * call it. Numbered migrations run before all of them.
 */
const layerOf = (file: string) => (/^\d/.test(file) ? 0 : Number(/^functions\/(\d+)/.exec(file)?.[1] ?? Infinity))
const upwards = (calls: Call[]) =>
  calls.filter(({ from, to }) => layerOf(to) > layerOf(from)).map(({ from, to }) => `${from} calls ${to}`)

/** Returns the paths of calls that lead back to their first file. */
function circles(edges: Call[]): string[][] {
  const targets = Map.groupBy(edges, ({ from }) => from)
  const done = new Set<string>()
  const visit = (file: string, way: string[]): string[][] => {
    if (way.includes(file)) return [[...way.slice(way.indexOf(file)), file]]
    if (done.has(file)) return []
    const found = (targets.get(file) ?? []).flatMap(({ to }) => visit(to, [...way, file]))
    done.add(file)
    return found
  }
  return [...targets.keys()].flatMap((file) => visit(file, []))
}

const calls = callsOf([...numbered, ...rebuilt])

test('the call graph knows every statement of the database functions', () => {
  const kinds = new Set(rebuilt.map(({ kind }) => kind))
  expect([...kinds].toSorted()).toEqual([
    'create constraint trigger',
    'create or replace aggregate',
    'create or replace function',
    'create or replace trigger',
    'create or replace view',
    'drop trigger if exists',
    'select make_event_partitions(3);',
  ])
  expect(calls).toContainEqual({ from: 'functions/5_sales/sales.sql', to: 'functions/1_base/counters.sql' })
})

test('database functions only call their own layer and lower ones', () => {
  expect(upwards(calls)).toEqual([])
})

test('calls between files of database functions form no cycle', () => {
  expect(circles(calls)).toEqual([])
})

test('dynamic SQL never composes the name of a function', () => {
  const composed = rebuilt.filter(({ text }) => /%(?:\d\$)?[sI]"?\(|\|\|\s*'\s*\(/.test(text))
  expect(composed.map(({ name }) => name)).toEqual([])
})

describe('the call graph sees', () => {
  const low = 'functions/2_low/low.sql'
  const high = 'functions/5_high/high.sql'
  const target = statementsOf(high, "create function act() returns trigger as $$ insert into log values ('a;b') $$;")
  test.for([
    ['a call', 'create function f() as $$ select act() $$;'],
    ['a call with a space', 'create function f() as $$ select act () $$;'],
    ['a call in capitals', 'CREATE FUNCTION f() AS $$ SELECT ACT() $$;'],
    ['a call in another quotation', 'create function f() as $body$ select act() $body$;'],
    ['a call in dynamic SQL', "create function f() as $$ execute 'select ' || 'public.act()' $$;"],
    ['a call of a view', 'create view v as select act();'],
    ['a call after a comment with a quotation mark', "-- don't\ncreate function f() return act();"],
  ])('%s', ([, sql = '']) => {
    expect(upwards(callsOf([...target, ...statementsOf(low, sql)]))).toEqual([`${low} calls ${high}`])
  })

  test('a read of a view', () => {
    const view = statementsOf(high, 'create or replace view shown as select 1;')
    const reader = statementsOf(low, 'create function f() as $$ select from shown $$;')
    expect(upwards(callsOf([...view, ...reader]))).toEqual([`${low} calls ${high}`])
  })

  test.for([
    ['insert', 'insert into t values (1)'],
    ['update', 'insert into t as x values (1) on conflict (id) do update set a = 1'],
    ['delete', 'delete from t'],
    ['insert or update of a', 'update only t set a = 1'],
  ])('the trigger of the event %s', ([events, sql]) => {
    const trigger = statementsOf(high, `create trigger r after ${events} on t for each row execute function act();`)
    const writer = statementsOf(low, `create function f() as $$ ${sql} $$;`)
    expect(upwards(callsOf([...target, ...trigger, ...writer]))).toEqual([`${low} calls ${high}`])
  })
})

test(`no database function has more than ${mostLines} lines of ${mostColumns} characters`, () => {
  const long = rebuilt.filter(({ lines }) => {
    const start = lines.findIndex((line) => line.startsWith('create'))
    return lines.length - start > mostLines || lines.some((line) => line.length > mostColumns)
  })
  expect(long.map(({ name }) => name)).toEqual([])
})

test('database functions read each of their variables', () => {
  const unread = rebuilt.flatMap(({ name, text }) => {
    const body = text.slice(text.search(/\bdeclare\b/))
    const times = (pattern: string) => Array.from(body.matchAll(new RegExp(pattern, 'g'))).length
    const [declared = ''] = /^declare\b[^]*?\bbegin\b/.exec(body) ?? []
    return Array.from(declared.matchAll(/^ {2}(\w+) /gm), ([, variable = '']) => variable)
      .filter((variable) => {
        const uses = times(`\\b${variable}\\b(?!\\s*:=)`) - 1
        return uses === times(`\\binto (?:strict )?(?:[\\w.]+, )*${variable}\\b`)
      })
      .map((variable) => `${name}: ${variable}`)
  })
  expect(unread).toEqual([])
})

test('views and triggers are in files that each migration rebuilds, not in numbered migrations', () => {
  expect(numbered).not.toEqual([])
  expect(numbered.filter(({ kind }) => /\b(view|trigger|rule)$/.test(kind)).map(({ name }) => name)).toEqual([])
})
