import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { type CommissionReview, decideReviews, listReviews, reviewTotals } from '../../../lib/money/reviews.ts'
import { formatMoney } from '../../../lib/money.ts'
import { type RelayMessage, sendSoon } from '../../../lib/notifications/outbox.ts'
import { wordsOfRule } from '../../../lib/review-rules.ts'
import { addressOf, backTo, positiveInteger } from '../components/address.ts'
import { Badge, Segments } from '../components/blocks.tsx'
import { textOf } from '../components/audit-entry.ts'
import { saleAddress } from '../components/explanation.tsx'
import { Field } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, optionalText, refuseForm, shortText } from '../components/form.ts'
import { Day, Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { List, readPage } from '../components/list.tsx'
import { createProgramPages, requireProgram } from '../components/page.ts'
import { selectLabel } from '../components/table.tsx'
import { idsOf, SelectionForm, SelectRow, shownField } from '../components/selection.tsx'
import { TimelineLink } from './customer.tsx'
import { partnerColumn } from './partner-columns.tsx'

/** Lists suspicious commissions that are held for review, and releases or rejects them. */
export const pages = createProgramPages()

export const reviewsAddress = (programId: number) => `/programs/${programId}/reviews`

pages.get('/reviews', requireProgram('commission:list'), async (c) => {
  const { id: programId, roles } = c.get('program')
  const isDecided = c.req.query('state') === 'decided'
  const state = isDecided ? 'decided' : 'waiting'
  const cursor = { of: ({ commission_id: id }: CommissionReview) => id, parse: positiveInteger }
  const [page, totals] = await Promise.all([
    readPage(c, cursor, (part) => listReviews(c.get('db'), programId, { ...part, state }), {
      state: isDecided ? state : undefined,
    }),
    c.get('db').query(reviewTotals(programId, { state })),
  ])
  const address = reviewsAddress(programId)
  const decides = may(roles, 'commission:decide') && !isDecided && page.rows.length > 0
  const sees = may(roles, 'tracking:list')
  return c.render(
    <ProgramPage
      title="Reviews"
      current="/reviews"
      lead="Suspicious commissions. Each is held with the reasons until you release or reject it."
      actions={
        <Segments
          label="State"
          items={[
            { href: address, text: 'Waiting', current: !isDecided },
            { href: addressOf(address, { state: 'decided' }), text: 'Reviewed', current: isDecided },
          ]}
        />
      }
    >
      {decides && <Decide address={address} reviews={page.rows} />}
      <List
        page={page}
        caption="Held commissions, newest first"
        totals={totals}
        rows="commissions"
        columns={[
          decides && {
            label: selectLabel,
            cell: ({ commission_id: id, partner_name: name }) => (
              <SelectRow id={id} label={`commission ${id} of ${name}`} />
            ),
          },
          { label: 'Held since', cell: ({ flagged_at: at }) => <Day at={at} /> },
          {
            label: 'Commission',
            phone: 'title',
            cell: (review) => (
              <div>
                <strong>
                  {formatMoney(review.amount_cents - (isDecided ? 0 : review.reversed_cents), review.currency)}
                </strong>
                <div class="small">
                  {review.transaction_id === null ? (
                    'for a signup'
                  ) : (
                    <a href={saleAddress(programId, review.transaction_id)}>{review.transaction_id}</a>
                  )}
                </div>
              </div>
            ),
          },
          {
            label: 'Partner',
            cell: (review) => (
              <div>
                {partnerColumn(programId).cell(review)}
                <div class="muted small">
                  since <Day at={review.partner_since} />
                </div>
              </div>
            ),
          },
          sees && { label: 'Buyer', cell: (review) => <Buyer review={review} programId={programId} /> },
          sees && { label: 'Click', cell: (review) => <Click review={review} /> },
          { label: 'Findings', cell: (review) => <Found review={review} sees={sees} /> },
          isDecided && { label: 'Decision', cell: (review) => <Decision review={review} /> },
        ]}
        empty={{
          title: isDecided ? 'Nothing reviewed yet' : 'Nothing to review',
          text: 'The rules in the settings hold suspicious commissions here.',
        }}
      />
    </ProgramPage>,
  )
})

function Buyer({ review, programId }: { review: CommissionReview; programId: number }) {
  const { customer_key: key, signup_date: signedUp, first_purchase_date: bought } = review
  return (
    <div>
      {key ?? <span class="muted">No key</span>}
      {signedUp && (
        <div class="muted small">
          signed up <Day at={signedUp} />
        </div>
      )}
      {bought && (
        <div class="muted small">
          bought <Day at={bought} />
        </div>
      )}
      <TimelineLink programId={programId} of={review} commissionId={review.commission_id} />
    </div>
  )
}

function Click({ review: { last_click_at: at, link_code: code } }: { review: CommissionReview }) {
  if (!at) return <span class="muted">None: by code</span>
  return (
    <div>
      {code && <code>{code}</code>}
      <div class="muted small">
        <Time at={at} />
      </div>
    </div>
  )
}

/** The findings, with evidence for readers who are allowed to see visits. */
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
      return `Clicked ${of('clicked_at')}. Of ${of('visitors')} visitors in the last 30 days, ${of('with_page')} came from a page.`
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

function Decide({ address, reviews }: { address: string; reviews: CommissionReview[] }) {
  return (
    <SelectionForm action={`${address}/decide`} ids={reviews.map(({ commission_id: id }) => id)}>
      <Field name="note" label="Note, shown to the partner if you reject the commission" maxlength={1000} required />
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

pages.post('/reviews/decide', requireProgram('commission:decide'), form(decideForm), async (c) => {
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
  const others = left > 0 ? ` ${left} had already been reviewed or reversed.` : ''
  const message = `${changed} ${decision}.${others}`
  return redirectWith(c, backTo(c, reviewsAddress(programId)), message, left > 0 ? 'warn' : 'good')
})
