import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { Viewer, ViewerProgram } from '../../../lib/access/viewer.ts'
import { toCsv } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { sendMail } from '../../../lib/notifications/mail.ts'
import { formatMoney, majorUnits } from '../../../lib/money.ts'
import { invitePartner } from '../../../lib/programs/invitations.ts'
import { linkAddress } from '../../../lib/programs/links.ts'
import { addPartner, listPartners, type PartnerOfProgram, setPartnerActive } from '../../../lib/programs/partners.ts'
import { renderProgram } from '../parts/layout.tsx'
import {
  createPages,
  csvResponse,
  emptyForm,
  fieldErrors,
  flash,
  type FormState,
  type PageContext,
  positiveInteger,
  readForm,
  requireProgram,
} from '../parts/page.ts'
import { Badge, Card, Empty, Field, formatNumber, Heading, Pager, Problem, Table } from '../parts/parts.tsx'

/** A program's partners: who they are, their links, what they brought and what they are owed. */
export const partnerListPages = createPages()

const pageSize = 50
const csvRows = 10_000

type ProgramContext = PageContext<{ viewer: Viewer; program: ViewerProgram }>

const addForm = z.object({
  name: z.string().check(z.trim(), z.minLength(1, "Enter the partner's name."), z.maxLength(200)),
  email: z.union([
    z.literal(''),
    z.string().check(z.trim(), z.toLowerCase(), z.maxLength(320), z.email('Enter an e-mail address, or none.')),
  ]),
  code: z
    .string()
    .check(z.trim(), z.regex(/^[A-Za-z0-9._@-]{0,64}$/, 'Use letters, digits and . _ @ - only, 64 at most.')),
})

async function renderPartners(c: ProgramContext, form: FormState, status: 200 | 400 | 409 = 200) {
  const program = c.get('program')
  const before = positiveInteger(c.req.query('before'))
  const rows = await listPartners(c.get('db'), program.id, { limit: pageSize + 1, before })
  const partners = rows.slice(0, pageSize)
  const last = rows.length > pageSize ? partners.at(-1) : undefined
  const manages = may(program.roles, 'partner:manage')
  const base = `/programs/${program.id}/partners`
  const refused = form !== emptyForm
  return renderProgram(c, {
    title: 'Partners',
    current: '/partners',
    status,
    children: (
      <>
        <Heading title="Partners" lead="The people and sites who send you customers.">
          {partners.length > 0 && (
            <a class="button" href={`${base}.csv`}>
              Export CSV
            </a>
          )}
        </Heading>
        {manages && (
          <Card>
            <details class="more" open={refused || (partners.length === 0 && before === undefined)}>
              <summary>Add a partner</summary>
              <form method="post" action={base} class="stack">
                <Problem form={form} />
                <div class="fields">
                  <Field name="name" label="Name" form={form} required />
                  <Field
                    name="email"
                    label="E-mail"
                    type="email"
                    hint="They get an invitation to see their earnings. Without it you only make a link."
                    form={form}
                  />
                  <Field
                    name="code"
                    label="Code"
                    hint="Stands in their link as aff=code. Empty: we make one up."
                    form={form}
                  />
                </div>
                <div class="row">
                  <button type="submit" class="primary">
                    Add the partner
                  </button>
                </div>
              </form>
            </details>
          </Card>
        )}
        <Card>
          {partners.length === 0 ? (
            <Empty title="No partners yet">
              <p>
                Add the first one above: they get a link to your site, and every sale it brings is counted as theirs.
              </p>
            </Empty>
          ) : (
            <>
              <Table
                caption="Partners of this program"
                rows={partners}
                columns={[
                  { label: 'Partner', cell: (partner) => <PartnerName partner={partner} /> },
                  { label: 'Links', cell: (partner) => <Links partner={partner} domain={program.domain} /> },
                  {
                    label: 'Clicks',
                    right: true,
                    cell: ({ links }) => formatNumber(links.reduce((sum, { clicks }) => sum + clicks, 0)),
                  },
                  { label: 'Sales', right: true, cell: ({ sales }) => formatNumber(sales) },
                  {
                    label: 'Balance',
                    right: true,
                    cell: (partner) => <Balances partner={partner} currency={program.currency} />,
                  },
                  ...(manages
                    ? [
                        {
                          label: '',
                          right: true,
                          cell: (partner: PartnerOfProgram) => <Actions partner={partner} base={base} />,
                        },
                      ]
                    : []),
                ]}
              />
              <Pager newer={before === undefined ? undefined : base} older={last && `${base}?before=${last.id}`} />
            </>
          )}
        </Card>
      </>
    ),
  })
}

function PartnerName({ partner }: { partner: PartnerOfProgram }) {
  return (
    <div>
      <strong>{partner.name}</strong>
      {!partner.is_active && (
        <>
          {' '}
          <Badge tone="bad">Off</Badge>
        </>
      )}
      {partner.email && <div class="muted small">{partner.email}</div>}
    </div>
  )
}

function Links({ partner, domain }: { partner: PartnerOfProgram; domain: string }) {
  return (
    <div class="stack tight">
      {partner.links.map(({ code, page_url: pageUrl }) => (
        <div class="row">
          <code>{code}</code>
          <button
            type="button"
            class="compact"
            data-copy={linkAddress(domain, code, pageUrl)}
            aria-label={`Copy link with the code ${code}`}
          >
            Copy link
          </button>
        </div>
      ))}
    </div>
  )
}

function Balances({ partner, currency }: { partner: PartnerOfProgram; currency: string }) {
  const balances = partner.balances.length > 0 ? partner.balances : [{ currency, balance_cents: 0 }]
  return (
    <div class="stack tight">
      {balances.map((balance) => (
        <span class={balance.balance_cents < 0 ? 'bad' : undefined}>
          {formatMoney(balance.balance_cents, balance.currency)}
        </span>
      ))}
    </div>
  )
}

function Actions({ partner, base }: { partner: PartnerOfProgram; base: string }) {
  return (
    <div class="row right">
      {!partner.has_account && partner.email && (
        <form method="post" action={`${base}/${partner.id}/invite`}>
          <button type="submit" class="compact" aria-label={`Invite ${partner.name}`}>
            Invite
          </button>
        </form>
      )}
      <form method="post" action={`${base}/${partner.id}/${partner.is_active ? 'deactivate' : 'activate'}`}>
        <button
          type="submit"
          class="compact"
          aria-label={`${partner.is_active ? 'Deactivate' : 'Activate'} ${partner.name}`}
          data-confirm={
            partner.is_active
              ? `Deactivate ${partner.name}? Clicks on their links are refused from then on.`
              : undefined
          }
        >
          {partner.is_active ? 'Deactivate' : 'Activate'}
        </button>
      </form>
    </div>
  )
}

partnerListPages.get('/programs/:programId/partners', requireProgram('partner:list'), (c) =>
  renderPartners(c, emptyForm),
)

partnerListPages.get('/programs/:programId/partners.csv', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const partners = await listPartners(c.get('db'), program.id, { limit: csvRows })
  const rows = partners.map((partner) => ({
    id: partner.id,
    name: partner.name,
    email: partner.email,
    active: partner.is_active,
    codes: partner.links.map(({ code }) => code).join(' '),
    clicks: partner.links.reduce((sum, { clicks }) => sum + clicks, 0),
    sales: partner.sales,
    balance: partner.balances.map((b) => `${majorUnits(b.balance_cents, b.currency)} ${b.currency}`).join(' '),
    added: partner.created_at,
  }))
  const columns = ['id', 'name', 'email', 'active', 'codes', 'clicks', 'sales', 'balance', 'added'] as const
  return csvResponse(c, `partners-${program.id}`, toCsv(columns, rows))
})

/** Mails the link by which the partner takes over their account. */
async function mailInvitation(c: ProgramContext, partnerId: number): Promise<boolean> {
  const invitation = await invitePartner(c.get('db'), partnerId)
  if (!invitation) return false
  await sendMail(c.get('db'), c.env, {
    to: invitation.email,
    subject: `You are a partner of ${c.get('program').name}`,
    text: [
      `${c.get('program').name} made you a partner. Your links and what you earn are here:`,
      `${c.env.BASE_URL}/partner-invitation?token=${invitation.token}`,
      'The link works for 14 days.',
    ].join('\n\n'),
  })
  return true
}

partnerListPages.post('/programs/:programId/partners', requireProgram('partner:manage'), async (c) => {
  const values = await readForm(c)
  const parsed = addForm.safeParse({ email: '', code: '', ...values })
  if (!parsed.success) return renderPartners(c, { values, errors: fieldErrors(parsed.error.issues) }, 400)
  const { name, email, code } = parsed.data
  const program = c.get('program')
  try {
    const added = await addPartner(c.get('db'), {
      programId: program.id,
      name,
      email: email === '' ? null : email,
      code: code === '' ? null : code,
    })
    // The partner is added whatever becomes of the mail, which can be sent again from the list.
    const invited = await mailInvitation(c, added.partnerId).catch((error: unknown) => {
      if (!(error instanceof ApiError)) throw error
      return false
    })
    flash(
      c,
      'good',
      `${name} is a partner with the code ${added.code}.${invited ? ' An invitation is on its way.' : ''}`,
    )
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'conflict') throw error
    return renderPartners(c, { values, errors: { code: error.message } }, 409)
  }
  return c.redirect(`/programs/${program.id}/partners`, 303)
})

/** The partner in the path, of this program alone. */
async function partnerOf(c: ProgramContext): Promise<PartnerOfProgram> {
  const partnerId = positiveInteger(c.req.param('partnerId'))
  const [partner] =
    partnerId === undefined ? [] : await listPartners(c.get('db'), c.get('program').id, { limit: 1, partnerId })
  if (!partner) throw new ApiError('not_found', 'There is no such partner in this program.')
  return partner
}

partnerListPages.post(
  '/programs/:programId/partners/:partnerId/invite',
  requireProgram('partner:manage'),
  async (c) => {
    const partner = await partnerOf(c)
    if (!(await mailInvitation(c, partner.id))) {
      throw new ApiError('conflict', `${partner.name} has no e-mail address, or an account already.`)
    }
    flash(c, 'good', `An invitation to ${partner.name} is on its way.`)
    return c.redirect(`/programs/${c.get('program').id}/partners`, 303)
  },
)

for (const [verb, active, done] of [
  ['activate', true, 'active again'],
  ['deactivate', false, 'off: clicks on their links are refused'],
] as const) {
  partnerListPages.post(
    `/programs/:programId/partners/:partnerId/${verb}`,
    requireProgram('partner:manage'),
    async (c) => {
      const partner = await partnerOf(c)
      await setPartnerActive(c.get('db'), c.get('program').id, partner.id, active)
      flash(c, 'good', `${partner.name} is ${done}.`)
      return c.redirect(`/programs/${c.get('program').id}/partners`, 303)
    },
  )
}
