import * as z from 'zod/mini'
import { csvOf } from '../../../lib/csv.ts'
import { decimalAmount } from '../../../lib/money.ts'
import { may } from '../../../lib/access/roles.ts'
import { codeText, codeTotals, type CodeWithFigures, listCodeFigures } from '../../../lib/programs/codes.ts'
import { createPartnerCode, type Promotion, revokePartnerCode } from '../../../lib/programs/promotion-codes.ts'
import { idInPath } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { codeColumns } from '../components/code.tsx'
import { CountingHelp } from '../components/counting.tsx'
import { Field, FormDetails, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { byId, programList, readListQuery } from '../components/list.tsx'
import { createProgramPages, requireProgram } from '../components/page.ts'
import { Table } from '../components/table.tsx'
import { partnerAddress, partnerColumn, partnerIn, partnerTabOf } from './partner-columns.tsx'

/** Lists the codes of a program's partners, and adds and revokes them. */
export const pages = createProgramPages()

const addressIn = (programId: number) => `/programs/${programId}/codes`

programList(pages, '/codes', 'partner:list', (c) => {
  const program = c.get('program')
  const { search, partner_id: partnerId } = readListQuery(c, {})
  const address = addressIn(program.id)
  return {
    title: 'Codes',
    current: '/codes',
    rows: 'codes',
    query: { q: search, partner: partnerId?.toString() },
    cursor: byId,
    read: (part) => listCodeFigures(c.get('db'), program.id, { ...part, search, partnerId }),
    totals: () => codeTotals(program.id, { search, partnerId }),
    show: () => ({
      lead: "A sale with one of these codes is attributed to the code's partner, with or without a click. Add codes on a partner's page.",
      what: 'Code',
      caption: 'Codes, newest first',
      columns: [
        ...codeColumns(program),
        partnerColumn(program.id),
        may(program.roles, 'partner:manage') && { cell: (code) => <Revoke code={code} address={address} /> },
      ],
      empty: { title: 'No codes yet', text: 'Open a partner and add a code, either only here or also in Stripe.' },
    }),
    file: () => `codes-${program.id}`,
    csv: (codes) =>
      csvOf(codes, {
        id: ({ id }) => id,
        code: ({ code }) => code,
        partner_id: (code) => code.partner_id,
        partner: (code) => code.partner_name,
        promotion_code_id: (code) => code.promotion_code_id,
        created: (code) => code.created_at,
        revoked: (code) => code.revoked_at,
        sales: ({ sales }) => sales,
        commission: (code) => decimalAmount(code.commission_cents, program.currency),
      }),
  }
})

function Revoke({ code, address }: { code: CodeWithFigures; address: string }) {
  if (code.revoked_at !== null) return null
  return (
    <PostButton
      action={`${address}/${code.id}/revoke`}
      class="compact danger"
      label={`Revoke code ${code.code}`}
      confirm={`Revoke ${code.code}? Later sales with it no longer count for its partner${code.promotion_code_id === null ? '' : ', and Stripe no longer accepts it'}.`}
      text="Revoke"
    />
  )
}

interface PartnerCodesProps {
  program: { id: number; currency: string; roles: Parameters<typeof may>[0] }
  partner: { id: number; codes: CodeWithFigures[] }
}

/** The codes of one partner, with the form that adds one. */
export function PartnerCodes({ program, partner }: PartnerCodesProps) {
  const manages = may(program.roles, 'partner:manage')
  const address = addressIn(program.id)
  const columns = codeColumns(program)
  if (partner.codes.length === 0 && !manages) return null
  return (
    <Card title="Codes">
      {partner.codes.length === 0 ? (
        <p class="muted">
          No codes yet. A sale with a partner's code is attributed to that partner, with or without a click.
        </p>
      ) : (
        <>
          <Table
            caption="Codes of this partner"
            rows={partner.codes}
            columns={manages ? [...columns, { cell: (code) => <Revoke code={code} address={address} /> }] : columns}
          />
          <CountingHelp
            names={['Sales', 'Commission']}
            note={`All-time figures, updated within a minute. Commission is in ${program.currency.toUpperCase()}.`}
          />
        </>
      )}
      {manages && <AddCode address={`${partnerAddress(program.id, partner.id)}/codes`} />}
    </Card>
  )
}

const ways = [
  ['own', 'In your own checkout, which sends the code as coupon'],
  ['discount', 'In Stripe, with a new coupon'],
  ['promotion', 'In Stripe, with an existing promotion code'],
] as const

function AddCode({ address }: { address: string }) {
  return (
    <FormDetails summary="Add a code" action={address} submit="Add code">
      <Field
        name="new_code"
        label="Code"
        hint="At most 64 characters, without spaces. Case doesn't matter. Leave it empty for an existing promotion code."
      />
      <Field name="way" label="Buyers enter it" options={ways} />
      <Field name="percent_off" label="Percent off" inputmode="decimal" hint="For a new Stripe coupon." />
      <Field
        name="duration"
        label="Discounted payments"
        options={[
          ['once', 'First payment of a subscription'],
          ['forever', 'All payments'],
        ]}
        hint="For a new Stripe coupon."
      />
      <Field
        name="promotion_code_id"
        label="Promotion code id"
        placeholder="promo_…"
        hint="An existing promotion code in Stripe."
      />
    </FormDetails>
  )
}

const codeForm = z.object({
  new_code: z.union([z.literal(''), codeText]),
  way: z.enum(['own', 'discount', 'promotion']),
  percent_off: optionalText,
  duration: z.enum(['once', 'forever']),
  promotion_code_id: optionalText,
})

/** Returns the Stripe promotion code in the form, if there is one. Refuses an invalid form. */
function promotionOf(typed: z.output<typeof codeForm>): Promotion | undefined {
  if (typed.way === 'promotion') {
    const id = typed.promotion_code_id.trim()
    if (!/^promo_\w{1,250}$/.test(id))
      throw new FormRefusal({ promotion_code_id: 'Enter the id of a promotion code, promo_….' })
    if (typed.new_code !== '')
      throw new FormRefusal({ new_code: 'Leave this empty. The promotion code has its own code.' })
    return { promotion_code_id: id }
  }
  if (typed.new_code === '') throw new FormRefusal({ new_code: 'Enter a code.' })
  if (typed.way === 'own') return undefined
  if (!/^[A-Za-z0-9-]+$/.test(typed.new_code))
    throw new FormRefusal({ new_code: 'Stripe accepts only letters, digits and -.' })
  const percent = Number(typed.percent_off.replace(',', '.').replace('%', ''))
  if (!(percent > 0 && percent <= 100))
    throw new FormRefusal({ percent_off: 'Enter a percentage above 0 and at most 100.' })
  return { percent_off: percent, duration: typed.duration }
}

pages.post(
  '/partners/:partnerId/codes',
  requireProgram('partner:manage'),
  form(codeForm, partnerTabOf('links'), 'new_code'),
  async (c) => {
    const typed = c.req.valid('form')
    const { code } = await createPartnerCode(c.get('db'), c.env, c.get('program').id, {
      partner_id: partnerIn(c),
      code: typed.new_code || undefined,
      stripe: promotionOf(typed),
    })
    return redirectWith(c, partnerTabOf('links')(c), `The code ${code} now belongs to this partner.`)
  },
)

pages.post('/codes/:codeId/revoke', requireProgram('partner:manage'), async (c) => {
  const { id: programId } = c.get('program')
  const codeId = idInPath(c, 'codeId', 'There is no such code in this program.')
  const { code } = await revokePartnerCode(c.get('db'), c.env, programId, codeId)
  return redirectWith(c, addressIn(programId), `The code ${code} was revoked.`)
})
