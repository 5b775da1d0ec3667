import type { Command } from 'commander'
import type { ApiOperations } from '../api-types.ts'
import { eachWholeNumber, type Flags, optionValues, type Print, type Subcommand, wholeNumber } from './flags.ts'
import { connect, request } from './service.ts'
import { day, green, money, plain, style } from './text.ts'

const named = (parent: Command) => parent.argument('<id>', 'Id of the application.', wholeNumber)

/** `svc applications show`, `approve`, `reject` and `delete`. */
export function decideApplications(applications: Command, subcommand: Subcommand, print: Print): void {
  type Answer = ApiOperations['getApplication']['answer']
  named(subcommand(applications, 'show', 'Show an application with its answers.'))
    .addHelpText('after', '\nExamples:\n  $ svc applications show 7')
    .action(async (id: number, flags: Flags) => {
      const answer = await request<Answer>(connect(flags), `/api/v1/applications/${id}`)
      const { name, email, status, applied_at: at, answers, terms_version: terms } = answer.application
      const lines = [
        `${plain(name)}, ${plain(email)}: ${status}, applied ${day(at)}${terms === null ? '' : `, accepted version ${terms} of the terms`}`,
        ...answers.map(({ question, answer: reply }) => `\n${style('bold', plain(question))}\n${plain(reply)}`),
      ]
      print(flags, answer, lines.join('\n'))
    })
  const decide = async (id: number, flags: Flags, body: object) => {
    const answer = await request<Answer>(connect(flags), `/api/v1/applications/${id}`, { method: 'PATCH', body })
    const { name, status, partner_id: partner } = answer.application
    const became = partner === null ? '' : `, partner ${partner}`
    print(flags, answer, `${green('✓')} Application ${id} of ${plain(name)} was ${status}${became}`)
  }
  named(subcommand(applications, 'approve', 'Approve an application. The person becomes a partner and gets an e-mail.'))
    .option('--group-id <id>', 'Group for the new partner.', wholeNumber)
    .addHelpText('after', '\nExamples:\n  $ svc applications approve 7 --group-id 2')
    .action((id: number, flags: Flags & { groupId?: number }) =>
      decide(id, flags, { status: 'approved', group_id: flags.groupId }),
    )
  named(subcommand(applications, 'reject', 'Reject an application. Sends no e-mail without --notify.'))
    .option('--note <text>', 'Reason, only for your workspace.')
    .option('--notify', 'Notify the person by e-mail.')
    .addHelpText('after', '\nExamples:\n  $ svc applications reject 7 --note "A coupon site" --notify')
    .action((id: number, flags: Flags & { notify?: boolean }) =>
      decide(id, flags, { status: 'rejected', ...optionValues(flags, ['note']), notify: flags.notify }),
    )
  named(subcommand(applications, 'delete', 'Delete an application that was rejected or never confirmed.'))
    .addHelpText('after', '\nExamples:\n  $ svc applications delete 7')
    .action(async (id: number, flags: Flags) => {
      const answer = await request<ApiOperations['deleteApplication']['answer']>(
        connect(flags),
        `/api/v1/applications/${id}`,
        { method: 'DELETE' },
      )
      print(flags, answer, `${green('✓')} Application ${id} was deleted.`)
    })
}

/** `svc payouts pay` and `refuse`. */
export function decidePayouts(payouts: Command, subcommand: Subcommand, print: Print): void {
  const decide = async (id: number, flags: Flags, body: object) => {
    const input = { method: 'PATCH', body }
    const answer = await request<ApiOperations['decidePayout']['answer']>(
      connect(flags),
      `/api/v1/payouts/${id}`,
      input,
    )
    const { amount_cents: cents, currency, status } = answer.payout
    print(flags, answer, `${green('✓')} Payout ${id} of ${money(cents, currency)} is ${status}.`)
  }
  subcommand(payouts, 'pay', 'Mark a payout as paid after you have transferred the money.')
    .argument('<id>', 'Id of the payout.', wholeNumber)
    .requiredOption(
      '--amount-cents <amount>',
      "The transferred amount, which must match the payout's amount.",
      wholeNumber,
    )
    .requiredOption('--reference <text>', 'Reference of the transfer, shown to the partner.')
    .requiredOption('--paid-on <day>', 'Day of the transfer, such as 2026-01-31.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc payouts pay 7 --amount-cents 980 --reference "transfer 17" --paid-on 2026-01-31',
    )
    .action((id: number, flags: Flags & { amountCents: number }) =>
      decide(id, flags, {
        status: 'paid',
        amount_cents: flags.amountCents,
        ...optionValues(flags, ['reference', 'paid-on']),
      }),
    )
  subcommand(payouts, 'refuse', 'Refuse a requested payout. Its money stays in the balance.')
    .argument('<id>', 'Id of the payout.', wholeNumber)
    .requiredOption('--reason <text>', 'Reason, shown to the partner.')
    .addHelpText('after', '\nExamples:\n  $ svc payouts refuse 7 --reason "The address belongs to somebody else"')
    .action((id: number, flags: Flags) => decide(id, flags, { status: 'refused', reason: flags['reason'] }))
}

/** `svc reviews release` and `reject`. */
export function decideReviews(reviews: Command, subcommand: Subcommand, print: Print): void {
  for (const [verb, decision, what] of [
    ['release', 'released', 'Release held commissions, to be credited when their hold ends.'],
    ['reject', 'rejected', 'Reject held commissions permanently.'],
  ] as const) {
    subcommand(reviews, verb, what)
      .argument('<id...>', 'Ids of commissions, at most 100.', eachWholeNumber)
      .requiredOption('--note <text>', 'Reason. It is stored, and the partner can see the reason for a rejection.')
      .addHelpText('after', `\nExamples:\n  $ svc reviews ${verb} 12 13 --note "Looked at the orders"`)
      .action(async (ids: number[], flags: Flags) => {
        const body = { commission_ids: ids, decision, note: flags['note'] }
        const input = { body, method: 'PATCH' }
        const answer = await request<ApiOperations['decideReviews']['answer']>(connect(flags), '/api/v1/reviews', input)
        const left = ids.length - answer.changed
        print(flags, answer, `${green('✓')} ${answer.changed} ${decision}${left === 0 ? '' : `; ${left} are not held`}`)
      })
  }
}

/** `svc commissions approve` and `reject`. */
export function decideCommissions(commissions: Command, subcommand: Subcommand, print: Print): void {
  const decide = async (flags: Flags, ids: number[], body: object, word: string) => {
    const input = { body: { ids, ...body }, method: 'PATCH' }
    const answer = await request<ApiOperations['decideCommissions']['answer']>(
      connect(flags),
      '/api/v1/commissions',
      input,
    )
    const left = ids.length - answer.changed
    const rest = left === 0 ? '' : `; ${left} were already decided or reversed, or belong to another program`
    print(flags, answer, `${green('✓')} ${answer.changed} ${word}${rest}`)
  }
  subcommand(commissions, 'approve', 'Credit commissions before their hold ends.')
    .argument('<id...>', 'Ids of commissions, at most 100.', eachWholeNumber)
    .addHelpText('after', '\nExamples:\n  $ svc commissions approve 12 13 14')
    .action((ids: number[], flags: Flags) => decide(flags, ids, { status: 'approved' }, 'approved'))
  subcommand(commissions, 'reject', 'Reject commissions permanently.')
    .argument('<id...>', 'Ids of commissions, at most 100.', eachWholeNumber)
    .requiredOption('--reason <text>', 'Reason, shown to the partners.')
    .addHelpText('after', '\nExamples:\n  $ svc commissions reject 12 13 --reason "Orders were never shipped"')
    .action((ids: number[], flags: Flags) =>
      decide(flags, ids, { status: 'rejected', reason: flags['reason'] }, 'rejected'),
    )
}
