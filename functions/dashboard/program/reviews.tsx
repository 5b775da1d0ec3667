import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { type CommissionReview, decideReviews, listReviews } from '../../../lib/money/reviews.ts'
import { formatMoney } from '../../../lib/money.ts'
import { type RelayMessage, sendSoon } from '../../../lib/notifications/outbox.ts'
import { wordsOfRule } from '../../../lib/review-rules.ts'
import { addressOf, backTo } from '../components/address.ts'
import { Badge, Heading, Segments } from '../components/blocks.tsx'
import { textOf } from '../components/audit-entry.ts'
import { saleAddress } from '../components/explanation.tsx'
import { Field } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, type FormState, optionalText, refuseForm, shortText, shownForm } from '../components/form.ts'
import { Day, Time } from '../components/format.tsx'
import { renderProgram } from '../components/layout.tsx'
import { List, type Page, placeIn, readPage } from '../components/list.tsx'
import { createPages, requireProgram } from '../components/page.ts'
import { idsOf, SelectionForm, SelectRow, shownField } from '../components/selection.tsx'
import { customerAddress } from './customer.tsx'
import { partnerAddress } from './partner-columns.tsx'

/** Lists suspicious commissions that are held for review, and releases or rejects them. */
export const reviewPages = createPages()

export const reviewsAddress = (programId: number) => `/programs/${programId}/reviews`

reviewPages.get('/programs/:programId/reviews', requireProgram('commission:list'), async (c) => {
  const program = c.get('program')
  const state = c.req.query('state') === 'decided' ? ('decided' as const) : ('waiting' as const)
  const page = await readPage(
    {
      address: reviewsAddress(program.id),
      filters: { state: state === 'decided' ? state : undefined },
      place: placeIn(c),
      cursorOf: ({ commission_id: id }: CommissionReview) => id,
    },
    (part) => listReviews(c.get('db'), program.id, { ...part, state }),
  )
  return renderProgram(c, {
    title: 'Reviews',
    current: '/commissions',
    children: <Reviews program={program} state={state} page={page} form={shownForm(c)} />,
  })
})

interface ReviewsProps {
  program: ViewerProgram
  state: 'waiting' | 'decided'
  page: Page<CommissionReview>
  form: FormState
}

function Reviews({ program, state, page, form: shown }: ReviewsProps) {
  const address = reviewsAddress(program.id)
  const decides = may(program.roles, 'commission:decide') && state === 'waiting' && page.rows.length > 0
  const sees = may(program.roles, 'tracking:list')
  return (
    <>
      <Heading
        title="Reviews"
        lead="Suspicious commissions. Each is held with its findings until you release or reject it."
      >
        <Segments
          label="State"
          items={[
            { href: address, text: 'Waiting', current: state === 'waiting' },
            { href: addressOf(address, { state: 'decided' }), text: 'Reviewed', current: state === 'decided' },
          ]}
        />
      </Heading>
      {decides && <Decide address={address} reviews={page.rows} form={shown} />}
      <List
        page={page}
        caption="Held commissions, newest first"
        columns={[
          decides && {
            label: 'Select',
            cell: ({ commission_id: id, partner_name: name }) => (
              <SelectRow id={id} label={`commission ${id} of ${name}`} form={shown} />
            ),
          },
          { label: 'Held since', cell: ({ flagged_at: at }) => <Day at={at} /> },
          {
            label: 'Commission',
            cell: (review) => (
              <div class="stack tight">
                <a href={partnerAddress(program.id, review.partner_id)}>
                  <strong>{review.partner_name}</strong>
                </a>
                <span class="small">
                  {formatMoney(
                    state === 'waiting' ? review.amount_cents - review.reversed_cents : review.amount_cents,
                    review.currency,
                  )}
                  {review.transaction_id === null ? ' for a signup' : ' for '}
                  {review.transaction_id !== null && (
                    <a href={saleAddress(program.id, review.transaction_id)}>{review.transaction_id}</a>
                  )}
                </span>
                {sees && (
                  <a
                    class="small"
                    href={customerAddress(program.id, review.customer_id)}
                    aria-label={`Timeline of the customer of commission ${review.commission_id}`}
                  >
                    Timeline
                  </a>
                )}
              </div>
            ),
          },
          { label: 'Findings', cell: (review) => <Found review={review} sees={sees} /> },
          state === 'decided' && { label: 'Decision', cell: (review) => <Decision review={review} /> },
        ]}
        empty={{
          title: state === 'waiting' ? 'Nothing to review' : 'Nothing reviewed yet',
          text: 'Commissions are held here by the rules in the settings.',
        }}
      />
    </>
  )
}

/** The findings, with evidence for readers who may see visits. */
function Found({ review: { flags }, sees }: { review: CommissionReview; sees: boolean }) {
  return (
    <div class="stack tight">
      {flags.map(({ rule, evidence }) => (
        <div>
          {wordsOfRule(rule)}
          {sees && evidence && <div class="muted small">{evidenceText(rule, evidence)}</div>}
        </div>
      ))}
    </div>
  )
}

/** Describes a finding of `flags_of` in migrations/functions/3_commissions/flags.sql. */
function evidenceText(rule: string, evidence: Record<string, string | number>): string {
  const of = (name: string) => textOf(evidence[name] ?? null)
  switch (rule) {
    case 'self_referral':
      return 'The mailbox matches their account, their payout address, or the address that you entered.'
    case 'one_address':
      return `${of('signups')} signups from ${of('first_at')} to ${of('last_at')}.`
    case 'no_page_view':
      return `Clicked ${of('clicked_at')}. Of the latest ${of('latest_clicks')} clicks ${of('with_page')} came from a page.`
    case 'bot':
      return `Clicked ${of('clicked_at')} by ${of('user_agent')}.`
    case 'paid_ads':
      return `Clicked ${of('clicked_at')}, with ${of('parameter')} in the address.`
    default:
      return Object.keys(evidence)
        .map((name) => `${name}: ${of(name)}`)
        .join(', ')
  }
}

function Decision({ review }: { review: CommissionReview }) {
  return (
    <div class="stack tight">
      <span>
        <Badge tone={review.decision === 'released' ? 'good' : 'bad'}>
          {review.decision === 'released' ? 'Released' : 'Rejected'}
        </Badge>
      </span>
      <span class="small">{review.note}</span>
      <span class="muted small">
        {review.decided_by} {review.decided_at && <Time at={review.decided_at} />}
      </span>
    </div>
  )
}

interface DecideProps {
  address: string
  reviews: CommissionReview[]
  form: FormState
}

function Decide({ address, reviews, form: shown }: DecideProps) {
  return (
    <SelectionForm action={`${address}/decide`} ids={reviews.map(({ commission_id: id }) => id)} form={shown}>
      <Field
        name="note"
        label="Note, shown to the partner of a rejected commission"
        maxlength={1000}
        form={shown}
        required
      />
      <button type="submit" name="decision" value="released">
        Release selected
      </button>
      <button type="submit" name="decision" value="rejected" class="danger">
        Reject selected
      </button>
    </SelectionForm>
  )
}

const decideForm = z.looseObject({
  decision: z.enum(['released', 'rejected'], 'Choose whether to release or reject them.'),
  note: z.pipe(optionalText, z.string().check(shortText(1000))),
  shown: shownField,
})

reviewPages.post(
  '/programs/:programId/reviews/decide',
  requireProgram('commission:decide'),
  form(decideForm),
  async (c) => {
    const { id: programId } = c.get('program')
    const { decision, note, which: _, ...selection } = c.req.valid('form')
    const ids = idsOf(selection)
    if (ids.length === 0 || note === '') {
      return await refuseForm(c, reviewsAddress(programId), {
        ...(ids.length === 0 && { problem: 'Select at least one commission first.' }),
        errors: note === '' ? { note: 'Enter a note. It is kept with the decision.' } : {},
      })
    }
    const outbox: RelayMessage[] = []
    const { changed } = await decideReviews(c.get('db'), programId, ids, decision, note, outbox)
    await sendSoon(c.env, outbox)
    const left = ids.length - changed
    return redirectWith(
      c,
      backTo(c, reviewsAddress(programId)),
      `${changed} ${decision}.${left > 0 ? ` ${left} had been reviewed or reversed already.` : ''}`,
    )
  },
)
