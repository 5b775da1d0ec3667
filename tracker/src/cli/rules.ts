import { type Command, InvalidArgumentError } from 'commander'
import { type Flags, type Print, type Subcommand, wholeNumber } from './flags.ts'
import { ruleInWords } from './lists.ts'
import { connect, request } from './service.ts'
import { green, money, plain, table } from './text.ts'
import type { ApiOperations } from '../api-types.ts'

/** Adds `svc rules list`, `preview` and `update`. */
export function addRules(svc: Command, subcommand: Subcommand, print: Print): void {
  const rules = svc
    .command('rules')
    .description('Commission rules. The key needs the scope read, and manage to change and preview them.')
    .helpOption('-h, --help', 'Show this help.')

  subcommand(rules, 'list', 'List the rules for all partners. `svc groups list` shows the rules of groups.')
    .addHelpText('after', '\nExamples:\n  $ svc rules list')
    .action(async (flags: Flags) => {
      const answer = await request<ApiOperations['listRules']['answer']>(connect(flags), '/api/v1/rules')
      print(
        flags,
        answer,
        answer.rules.length === 0 ? 'No rules.' : answer.rules.map((rule) => plain(ruleInWords(rule))).join('\n'),
      )
    })

  const withRules = (name: string, description: string, example: string) =>
    subcommand(rules, name, description)
      .option('--group-id <id>', 'Id of a group.', wholeNumber)
      .option('--partner-id <id>', 'Id of a partner.', wholeNumber)
      .requiredOption('--rules <json>', 'All new rules as JSON, as in the API.', asRules)
      .addHelpText('after', `\nExamples:\n  $ svc rules ${name} ${example}`)

  withRules(
    'preview',
    'Show the commissions of a past month under these rules. Changes nothing.',
    `--group-id 3 --rules '[{"commission_bp": 3000}]'`,
  )
    .option('--month <month>', 'Month such as 2026-01. Default: the previous month.')
    .action(async (flags: Flags) => {
      const { groupId: group_id, partnerId: partner_id, rules: all, month } = flags
      const body = { group_id, partner_id, rules: all, month }
      const answer = await request<ApiOperations['previewRules']['answer']>(connect(flags), '/api/v1/rules/preview', {
        body,
      })
      print(flags, answer, previewed(answer))
    })

  withRules(
    'update',
    'Change the rules from now on.',
    `--rules '[{"sale_type": "upgrade", "commission_bp": 1000}]'`,
  ).action(async (flags: Flags) => {
    const { groupId, partnerId, rules: all } = flags
    if (groupId !== undefined && partnerId !== undefined)
      throw new InvalidArgumentError('Use --group-id or --partner-id, but not both.')
    const path =
      typeof groupId === 'number'
        ? `/api/v1/groups/${groupId}`
        : typeof partnerId === 'number'
          ? `/api/v1/partners/${partnerId}`
          : '/api/v1/rules'
    const answer = await request<object>(connect(flags), path, { method: 'PATCH', body: { rules: all } })
    print(flags, answer, `${green('✓')} The rules apply from now on.`)
  })
}

function asRules(text: string): unknown {
  try {
    const rules: unknown = JSON.parse(text)
    if (Array.isArray(rules)) return rules
  } catch {
    // The error below also covers this case.
  }
  throw new InvalidArgumentError('Pass a JSON array of rules.')
}

function previewed({ preview }: ApiOperations['previewRules']['answer']): string {
  const rowOf = (name: string, of: (typeof preview.totals)[number]) =>
    [name, ...[of.actual_cents, of.now_cents, of.then_cents].map((cents) => money(cents, of.currency))].map(plain)
  if (preview.totals.length === 0) return `There were no sales in ${preview.month}.`
  return table(
    ['PARTNER', 'EARNED', 'CURRENT RULES', 'NEW RULES'],
    [
      ...preview.totals.map((total) => rowOf(`all, ${preview.month}`, total)),
      ...preview.partners.map((partner) => rowOf(partner.name, partner)),
    ],
  )
}
