import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../migrations/functions/', import.meta.url))
const mostLines = 80

interface SqlFunction {
  file: string
  name: string
  text: string
}

/** The database functions of a file, without its comments. */
function functionsOf(file: string): SqlFunction[] {
  const sql = readFileSync(path.join(root, file), 'utf8').replaceAll(/^ *--.*$/gm, '--')
  const found = sql.matchAll(/^create or replace function (\w+)\(.*?(?:\bas \$\$.*?\$\$;|\breturn [^$]*?;)$/gms)
  return Array.from(found, ([text, name = '']) => ({ file, name, text }))
}

const files = readdirSync(root, { encoding: 'utf8', recursive: true })
  .filter((name) => name.endsWith('.sql'))
  .toSorted()
const functions = files.flatMap(functionsOf)
const fileOf = new Map(functions.map(({ name, file }) => [name, file]))

interface Call {
  from: string
  to: string
}

/** Calls from one file to another, each once. */
const calls = [
  ...new Map(
    functions.flatMap(({ file, text }) =>
      Array.from(text.matchAll(/\b(\w+)\(/g), ([, name = '']) => fileOf.get(name))
        .filter((to) => to !== undefined && to !== file)
        .map((to) => [`${file} calls ${to}`, { from: file, to: to ?? '' }] as const),
    ),
  ).values(),
]

/**
 * A folder with a number calls itself and lower numbers. A folder without a number can call any folder, and no numbered folder calls it.
 */
const layerOf = (file: string) => Number(/^\d+/.exec(file)?.[0] ?? Infinity)
const shown = ({ from, to }: Call) => `${from} calls ${to}`

/** Paths of calls that return to their first file. */
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

test('the call graph contains every database function', () => {
  const created = files.flatMap(
    (file) => readFileSync(path.join(root, file), 'utf8').match(/^create or replace function /gm) ?? [],
  )
  expect(functions).toHaveLength(created.length)
  expect(calls).toContainEqual({ from: '5_sales/sales.sql', to: '1_base/counters.sql' })
})

test('database functions only call their own layer and lower ones', () => {
  const upwards = calls.filter(({ from, to }) => layerOf(to) > layerOf(from)).map(shown)
  expect(upwards).toEqual([])
})

test('calls between files of database functions form no cycle', () => {
  expect(circles(calls)).toEqual([])
})

test(`no database function is longer than ${mostLines} lines`, () => {
  const long = functions.filter(({ text }) => text.split('\n').length > mostLines).map(({ name }) => name)
  expect(long).toEqual([])
})

test('views are in files that each migration rebuilds, not in numbered migrations', () => {
  const migrations = path.join(root, '..')
  const numbered = readdirSync(migrations).filter((name) => /^\d{4}_.*\.sql$/.test(name))
  expect(numbered).not.toEqual([])
  const withViews = numbered.filter((name) =>
    /^create .*\bview\b/m.test(readFileSync(path.join(migrations, name), 'utf8')),
  )
  expect(withViews).toEqual([])
})
