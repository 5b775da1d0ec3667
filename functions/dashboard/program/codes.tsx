import * as z from 'zod/mini'
import { csvOf } from '../../../lib/csv.ts'
import { majorUnits } from '../../../lib/money.ts'
import { may } from '../../../lib/access/roles.ts'
import { type CodeWithFigures, codeText, listCodeFigures } from '../../../lib/programs/codes.ts'
import { makePartnerCode, type Promotion, revokePartnerCode } from '../../../lib/programs/promotion-codes.ts'
import { idInPath } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { codeColumns } from '../components/code.tsx'
import { CountingHelp } from '../components/counting.tsx'
import { Field, PostButton, Problem, Submit } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, type FormState, optionalText, refuseConflict, refuseForm } from '../components/form.ts'
import { renderProgram } from '../components/layout.tsx'
import { askedOf, asQuery, exportList, idOf, ListPage, readPageById } from '../components/list.tsx'
import { createPages, requireProgram } from '../components/page.ts'
import { Table } from '../components/table.tsx'
import { partnerAddress, partnerPageOf } from './partner-columns.tsx'

/** Lists the codes of a program's partners, and adds and revokes them. */
export const codePages = createPages()

const addressIn = (programId: number) => `/programs/${programId}/codes`

codePages.get('/programs/:programId/codes', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const address = addressIn(program.id)
  const asked = askedOf(c, {})
  const { search, partner_id: partnerId } = asked
  const page = await readPageById(
    c,
    address,
    (part) => listCodeFigures(c.get('db'), program.id, { ...part, search, partnerId }),
    asQuery(asked),
  )
  const manages = may(program.roles, 'partner:manage')
  return renderProgram(c, {
    title: 'Codes',
    current: '/codes',
    children: (
      <ListPage
        title="Codes"
        lead="A sale with one of these codes belongs to the code's partner, with or without a click. Add codes on a partner's page."
        address={address}
        query={asQuery(asked)}
        rows="codes"
        csv={`${address}.csv`}
        what="Code"
        page={page}
        caption="Codes, newest first"
        columns={[
          ...codeColumns(program),
          {
            label: 'Partner',
            cell: ({ partner_id: id, partner_name: name }) => <a href={partnerAddress(program.id, id)}>{name}</a>,
          },
          manages && { label: '', right: true, cell: (code) => <Revoke code={code} address={address} /> },
        ]}
        empty={{
          title: 'No codes yet',
          text: 'Open a partner and add a code, only here or in Stripe too.',
        }}
      />
    ),
  })
})

codePages.get('/programs/:programId/codes.csv', requireProgram('partner:list'), async (c) => {
  const { id: programId, currency } = c.get('program')
  const write = (codes: CodeWithFigures[]) =>
    csvOf(codes, {
      id: ({ id }) => id,
      code: ({ code }) => code,
      partner_id: (code) => code.partner_id,
      partner: (code) => code.partner_name,
      promotion_code_id: (code) => code.promotion_code_id,
      created: (code) => code.created_at,
      revoked: (code) => code.revoked_at,
      sales: ({ sales }) => sales,
      commission: (code) => majorUnits(code.commission_cents, currency),
    })
  return await exportList(c, {
    nameOf: () => `codes-${programId}`,
    read: (part) => listCodeFigures(c.get('db'), programId, part),
    cursorOf: idOf,
    write,
  })
})

function Revoke({ code, address }: { code: CodeWithFigures; address: string }) {
  if (code.revoked_at !== null) return null
  return (
    <PostButton
      action={`${address}/${code.id}/revoke`}
      class="compact danger"
      label={`Revoke code ${code.code}`}
      confirm={`Revoke ${code.code}? Sales that name it from now on are not its partner's${code.promotion_code_id === null ? '' : ', and Stripe no longer takes it'}.`}
    >
      Revoke
    </PostButton>
  )
}

interface PartnerCodesProps {
  program: { id: number; currency: string; roles: Parameters<typeof may>[0] }
  partner: { id: number; codes: CodeWithFigures[] }
  form: FormState
}

/** The codes of one partner, with the form that adds one. */
export function PartnerCodes({ program, partner, form: shown }: PartnerCodesProps) {
  const manages = may(program.roles, 'partner:manage')
  const address = addressIn(program.id)
  if (partner.codes.length === 0 && !manages) return null
  return (
    <Card title="Codes">
      {partner.codes.length === 0 ? (
        <p class="muted">
          No codes yet. A sale with a partner's code belongs to that partner, with or without a click.
        </p>
      ) : (
        <>
          <Table
            caption="Codes of this partner"
            rows={partner.codes}
            columns={[
              ...codeColumns(program),
              ...(manages
                ? [
                    {
                      label: '',
                      right: true,
                      cell: (code: CodeWithFigures) => <Revoke code={code} address={address} />,
                    },
                  ]
                : []),
            ]}
          />
          <CountingHelp
            names={['Sales', 'Commission']}
            note={`All-time figures, updated within a minute. Commission is in ${program.currency.toUpperCase()}.`}
          />
        </>
      )}
      {manages && <AddCode address={`${partnerAddress(program.id, partner.id)}/codes`} form={shown} />}
    </Card>
  )
}

const ways = [
  ['own', 'In your own checkout, which sends it as coupon'],
  ['discount', 'In Stripe, with a new coupon'],
  ['promotion', 'In Stripe, with an existing promotion code'],
] as const

function AddCode({ address, form: shown }: { address: string; form: FormState }) {
  const isShown = ['new_code', 'way', 'percent_off', 'promotion_code_id'].some((name) => shown.errors[name])
  return (
    <details class="more" open={isShown}>
      <summary>Add a code</summary>
      <form method="post" action={address} class="stack">
        <Problem form={shown} />
        <div class="fields">
          <Field
            name="new_code"
            label="Code"
            hint="At most 64 characters, without spaces. Case doesn't matter. Leave it empty for an existing promotion code."
            form={shown}
          />
          <Field name="way" label="Buyers enter it" options={ways} form={shown} />
          <Field
            name="percent_off"
            label="Percent off"
            inputmode="decimal"
            hint="For a new Stripe coupon."
            form={shown}
          />
          <Field
            name="duration"
            label="Discounted payments"
            options={[
              ['once', 'First payment of a subscription'],
              ['forever', 'All payments'],
            ]}
            hint="For a new Stripe coupon."
            form={shown}
          />
          <Field
            name="promotion_code_id"
            label="Promotion code id"
            placeholder="promo_…"
            hint="An existing promotion code in Stripe."
            form={shown}
          />
        </div>
        <Submit>Add code</Submit>
      </form>
    </details>
  )
}

const codeForm = z.object({
  new_code: z.union([z.literal(''), codeText]),
  way: z.enum(['own', 'discount', 'promotion']),
  percent_off: optionalText,
  duration: z.enum(['once', 'forever']),
  promotion_code_id: optionalText,
})

/** Returns the Stripe promotion code of the form, or its errors by field. */
function promotionOf(typed: z.output<typeof codeForm>): { promotion?: Promotion } | { errors: Record<string, string> } {
  if (typed.way === 'promotion') {
    const id = typed.promotion_code_id.trim()
    if (!/^promo_\w{1,250}$/.test(id))
      return { errors: { promotion_code_id: 'Enter the id of a promotion code, promo_….' } }
    if (typed.new_code !== '') return { errors: { new_code: 'Leave this empty. The promotion code has its own code.' } }
    return { promotion: { promotion_code_id: id } }
  }
  if (typed.new_code === '') return { errors: { new_code: 'Enter a code.' } }
  if (typed.way === 'own') return {}
  if (!/^[A-Za-z0-9-]+$/.test(typed.new_code))
    return { errors: { new_code: 'Stripe accepts only letters, digits and -.' } }
  const percent = Number(typed.percent_off.replace(',', '.').replace('%', ''))
  if (!(percent > 0 && percent <= 100))
    return { errors: { percent_off: 'Enter a percentage above 0 and at most 100.' } }
  return { promotion: { percent_off: percent, duration: typed.duration } }
}

codePages.post(
  '/programs/:programId/partners/:partnerId/codes',
  requireProgram('partner:manage'),
  form(codeForm, partnerPageOf),
  async (c) => {
    const typed = c.req.valid('form')
    const asked = promotionOf(typed)
    if ('errors' in asked) return await refuseForm(c, partnerPageOf(c), asked)
    try {
      const code = await makePartnerCode(c.get('db'), c.env, c.get('program').id, {
        partner_id: idInPath(c, 'partnerId', 'This program has no such partner.'),
        code: typed.new_code || undefined,
        stripe: asked.promotion,
      })
      return redirectWith(c, partnerPageOf(c), `The code ${code.code} is theirs now.`)
    } catch (error) {
      return await refuseConflict(
        c,
        partnerPageOf(c),
        typed.way === 'promotion' ? 'promotion_code_id' : 'new_code',
        error,
      )
    }
  },
)

codePages.post('/programs/:programId/codes/:codeId/revoke', requireProgram('partner:manage'), async (c) => {
  const { id: programId } = c.get('program')
  const code = await revokePartnerCode(
    c.get('db'),
    c.env,
    programId,
    idInPath(c, 'codeId', 'There is no such code in this program.'),
  )
  return redirectWith(c, addressIn(programId), `The code ${code.code} is revoked.`)
})
