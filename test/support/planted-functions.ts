import type pg from 'pg'

/**
 * Mistakes in database functions, by name. Each is a plpgsql body that replaces the function's own body. In that body, `intact();`
 * calls the original function with the current parameters. After that, the variable `result` or the out parameters contain the
 * result.
 */
export type FunctionMistakes = Readonly<Record<string, string>>

/** The error of a mistake that doesn't run. Without this check, tests would mistake this error for a finding. */
export const unrunnable = /ReferenceError|SyntaxError|is not a function|"code":"42/

interface FunctionRow {
  definition: string
  parameters: string
  answer: string
  is_set: boolean
  given: string[]
  out: string[]
}

const signature = `select pg_get_functiondef(p.oid) as definition, pg_get_function_arguments(p.oid) as parameters,
    pg_get_function_result(p.oid) as answer, p.proretset as is_set, array(
      select n.name from unnest(p.proargnames) with ordinality n (name, at) where coalesce(p.proargmodes[n.at], 'i') in ('i', 'b') order by n.at
    ) as given, array(
      select n.name from unnest(p.proargnames) with ordinality n (name, at) where p.proargmodes[n.at] in ('o', 'b') order by n.at
    ) as out
  from pg_proc p where p.oid = $1::regproc`

function bodyOf(name: string, body: string, { answer, is_set: isSet, given, out }: FunctionRow): string {
  const call = `intact.${name}(${given.join(', ')})`
  const [declared, called, last] = isSet
    ? ['', `return query select * from ${call}`, '']
    : out.length > 0
      ? [
          'answered record;',
          `select * into answered from ${call}; ${out.map((one) => `${one} := answered.${one}`).join('; ')}`,
          '',
        ]
      : answer === 'void'
        ? ['', `perform ${call}`, '']
        : [`result ${answer};`, `result := ${call}`, 'return result;']
  return `#variable_conflict use_column\ndeclare ${declared}\nbegin\n${body.replaceAll('intact();', () => `${called};`)}\n${last}\nend`
}

/**
 * Plants mistakes, and returns a function that removes them. Replaces only changed functions, because each connection has to plan those
 * again.
 */
export async function plantInFunctions(
  sql: pg.Client | pg.Pool,
  mistakes: FunctionMistakes,
): Promise<() => Promise<void>> {
  const definitions: string[] = []
  if (Object.keys(mistakes).length > 0) await sql.query('create schema if not exists intact')
  for (const [name, body] of Object.entries(mistakes)) {
    const { rows } = await sql.query<FunctionRow>(signature, [name])
    const [row] = rows
    if (!row) throw new Error(`The database has no function ${name}.`)
    definitions.push(row.definition)
    // The copy has the same name, because bodies qualify their parameters with it.
    await sql.query(row.definition.replace('FUNCTION public.', 'FUNCTION intact.'))
    await sql.query(
      `create or replace function public.${name}(${row.parameters}) returns ${row.answer} language plpgsql as $planted$\n${bodyOf(name, body, row)} $planted$`,
    )
  }
  return async () => {
    for (const definition of definitions) await sql.query(definition)
  }
}
