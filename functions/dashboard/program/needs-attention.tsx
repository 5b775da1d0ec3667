import { type Action, may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import type { Needs } from '../../../lib/programs/needs-attention.ts'
import { counted } from '../components/format.tsx'

const of = (count: number | null) => count ?? 0

/** Lists the tasks of a person with these roles, each with a link to its page. */
function linesOf(needs: Needs, { id, roles }: ViewerProgram): { text: string; href: string }[] {
  const [held, unverified] = [of(needs.commissions_held), of(needs.commissions_unverified)]
  const owing = of(needs.partners_owing)
  const lines: [isThere: boolean, action: Action, text: string, page: string][] = [
    [
      needs.is_disconnected,
      'program:update',
      'Stripe is disconnected, so payments earn nothing until you connect it again',
      '/settings?tab=payments',
    ],
    [
      of(needs.endpoints_off) > 0,
      'webhook:manage',
      `${counted(of(needs.endpoints_off), 'webhook endpoint is', 'webhook endpoints are')} disabled after days of failures`,
      '/webhooks',
    ],
    [
      of(needs.rules_broken) > 0,
      'payout:list',
      `${counted(of(needs.rules_broken), 'rule of the books is', 'rules of the books are')} broken`,
      '/books',
    ],
    [
      of(needs.payouts_due) > 0,
      'payout:list',
      `${counted(of(needs.payouts_due), 'payout is', 'payouts are')} due`,
      '/payouts/due',
    ],
    [
      of(needs.runs_open) > 0,
      'payout:list',
      `${counted(of(needs.runs_open), 'payout run', 'payout runs')} not yet paid`,
      '/payout-runs',
    ],
    [
      of(needs.payouts_asked) > 0,
      'payout:list',
      `${counted(of(needs.payouts_asked), 'payout was', 'payouts were')} requested`,
      '/payouts?status=requested',
    ],
    // Held commissions have their own page. Other suspicious commissions are marked in the list of commissions.
    unverified === 0
      ? [
          held > 0,
          'commission:decide',
          `${counted(held, 'commission is', 'commissions are')} held for your review`,
          '/reviews',
        ]
      : [
          true,
          'commission:decide',
          `${counted(held + unverified, 'commission is waiting', 'commissions are waiting')} for your review`,
          '/commissions?review=waiting',
        ],
    [
      of(needs.applications_waiting) > 0,
      'partner:manage',
      `${counted(of(needs.applications_waiting), 'application is waiting', 'applications are waiting')} for your review`,
      '/applications?status=waiting',
    ],
    [
      owing > 0,
      'partner:list',
      `${counted(owing, 'partner has', 'partners have')} a balance below zero`,
      owing === 1 || !may(roles, 'notification:list') ? `/partners/${needs.owing_partner_id}` : '/notifications',
    ],
    [
      of(needs.events_ignored) > 0,
      'notification:list',
      `${counted(of(needs.events_ignored), 'payment', 'payments')} from your partners’ customers could not be recorded`,
      '/notifications',
    ],
    [needs.has_no_sale, 'program:read', 'No sales yet: check your setup', '/check'],
  ]
  return lines
    .filter(([isThere, action]) => isThere && may(roles, action))
    .map(([, , text, page]) => ({ text, href: `/programs/${id}${page}` }))
}

/** Renders the reader's tasks, or nothing if there are none. */
export function NeedsAttention({ needs, program }: { needs: Needs; program: ViewerProgram }) {
  const lines = linesOf(needs, program)
  if (lines.length === 0) return null
  return (
    <section class="needs message warn" aria-label="Needs attention">
      <strong>Needs attention</strong>
      <ul>
        {lines.map(({ text, href }) => (
          <li>
            <a href={href}>{text}</a>
          </li>
        ))}
      </ul>
    </section>
  )
}
