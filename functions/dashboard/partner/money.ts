import { ApiError } from '../../../lib/errors.ts'
import type { PartnerBalance } from '../../../lib/money/balances.ts'
import { listProgramsOfPartner, type ProgramOfPartner } from '../../../lib/programs/partnerships.ts'
import { positiveInteger } from '../components/address.ts'
import { type Page, readPage } from '../components/list.tsx'
import type { PartnerContext } from '../components/page.ts'

/** One of a partner's programs, with the partner's balances in it. The program's own currency comes first. */
export interface ProgramMoney {
  program: ProgramOfPartner
  balances: PartnerBalance[]
}

/** Reads a page of the person's programs. */
export async function readPrograms(c: PartnerContext): Promise<Page<ProgramOfPartner>> {
  const cursor = { of: ({ partner_id: id }: ProgramOfPartner) => id, parse: positiveInteger }
  return await readPage(c, cursor, (part) => listProgramsOfPartner(c.get('db'), c.get('viewer').user.id, part))
}

/** Reads a page of the person's programs with the balances in them. */
export async function readMoney(c: PartnerContext): Promise<Page<ProgramMoney>> {
  const page = await readPrograms(c)
  return { ...page, rows: page.rows.map(moneyIn) }
}

export function moneyIn(program: ProgramOfPartner): ProgramMoney {
  const none = {
    currency: program.currency,
    pending_cents: 0,
    balance_cents: 0,
    requested_cents: 0,
    available_cents: 0,
    paid_cents: 0,
  }
  const own = program.balances.filter(({ currency }) => currency === program.currency)
  const others = program.balances.filter(({ currency }) => currency !== program.currency)
  return { program, balances: [own[0] ?? none, ...others] }
}

/** Finds the program with the id from a form or an address, if the person is or was its partner. */
export async function programNamed(c: PartnerContext, id: string | undefined): Promise<ProgramOfPartner | undefined> {
  const programId = positiveInteger(id)
  if (programId === undefined) return undefined
  const [program] = await listProgramsOfPartner(c.get('db'), c.get('viewer').user.id, { limit: 1, programId })
  return program
}

/** Finds the program in the path. Throws `not_found` if the person was never its partner. */
export async function ownProgram(c: PartnerContext): Promise<ProgramOfPartner> {
  const program = await programNamed(c, c.req.param('programId'))
  if (!program) throw new ApiError('not_found', 'You are not a partner of this program.')
  return program
}
