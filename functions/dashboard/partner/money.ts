import { type PartnerBalance, readBalances } from '../../../lib/money/balances.ts'
import { listProgramsOfPartner, type ProgramOfPartner } from '../../../lib/programs/partners.ts'
import type { PartnerContext } from '../parts/page.ts'

/** A program that a partner is in, with their money there: that in the program's own currency first. */
export interface ProgramMoney {
  program: ProgramOfPartner
  balances: PartnerBalance[]
}

/** The partner's programs with the money in each. */
export async function readMoney(c: PartnerContext): Promise<ProgramMoney[]> {
  const db = c.get('db')
  const partner = c.get('partner')
  const programs = await listProgramsOfPartner(db, partner.id)
  return await Promise.all(
    programs.map(async (program) => {
      const balances = await readBalances(db, program.id, partner.id)
      const none = {
        currency: program.currency,
        pending_cents: 0,
        balance_cents: 0,
        requested_cents: 0,
        available_cents: 0,
        paid_cents: 0,
      }
      const own = balances.filter(({ currency }) => currency === program.currency)
      const others = balances.filter(({ currency }) => currency !== program.currency)
      return { program, balances: [own[0] ?? none, ...others] }
    }),
  )
}
