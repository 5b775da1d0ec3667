import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { ApiError } from '../../../lib/errors.ts'
import { nameField } from '../../../lib/names.ts'
import {
  addPartner,
  daysOfLine,
  listPartnersWithCodes,
  type PartnerOfProgram,
  partnerSorts,
  partnerStates,
  partnerTotals,
  readPartner,
  updatePartner,
} from '../../../lib/programs/partners.ts'
import { countInvitationMail, mailPartnerInvitation } from '../../../lib/programs/invitation-mails.ts'
import { groupNamesStatement, movePartners } from '../../../lib/programs/groups.ts'
import { invitePartner } from '../../../lib/programs/partner-invitations.ts'
import { endPartnership } from '../../../lib/programs/partnerships.ts'
import { backTo, cameFrom, positiveInteger } from '../components/address.ts'
import { CountingHelp } from '../components/counting.tsx'
import { Field, FormDetails, optionsOf } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, optionalText, refuseForm } from '../components/form.ts'
import { readListQuery, byId, programList, stateIn, type States } from '../components/list.tsx'
import { formatNumber } from '../components/format.tsx'
import { createProgramPages, type ProgramContext, requireProgram, requireVerified } from '../components/page.ts'
import { selectLabel } from '../components/table.tsx'
import { idsOf, SelectionButtons, SelectionForm, SelectRow, shownField } from '../components/selection.tsx'
import { AllThatMatch } from './bulk-kinds.tsx'
import {
  optionalEmail,
  PartnerActions,
  partnerAddress,
  partnerColumns,
  partnerIn,
  partnersCsv,
} from './partner-columns.tsx'

/** Lists a program's partners with their links, figures and balances. */
export const pages = createProgramPages()

const addressIn = (programId: number) => `/programs/${programId}/partners`
const partnersPage = (c: ProgramContext) => addressIn(c.get('program').id)

const sorts: Record<(typeof partnerSorts)[number], string> = {
  newest: 'Newest first',
  oldest: 'Oldest first',
  name: 'By name',
  clicks: 'Most clicks',
  sales: 'Most sales',
  balance: 'Highest balance',
}

const states: States<(typeof partnerStates)[number]> = {
  active: { name: 'Active', tone: 'good' },
  inactive: { name: 'Deactivated', tone: 'bad' },
  ended: { name: 'Ended', tone: 'bad' },
}

/** The filters of the list, both parsed and as in the address. */
function filtersIn(c: ProgramContext) {
  const { search } = readListQuery(c, sorts)
  const [status, group_id] = [stateIn(c, states), positiveInteger(c.req.query('group'))]
  const searchesEmail = may(c.get('program').roles, 'payout-address:read')
  return {
    filters: { search, status, group_id, searchesEmail },
    query: { q: search, group: group_id?.toString(), status },
  }
}

programList(pages, '/partners', 'partner:list', (c) => {
  const program = c.get('program')
  const { filters, query } = filtersIn(c)
  const { sort } = readListQuery(c, sorts)
  const manages = may(program.roles, 'partner:manage')
  const address = addressIn(program.id)
  return {
    title: 'Partners',
    current: '/partners',
    rows: 'partners',
    query: { ...query, sort },
    states,
    cursor: byId,
    read: (part) => listPartnersWithCodes(c.get('db'), program.id, { ...part, ...filters, sort }),
    totals: () => partnerTotals(program.id, filters),
    more: () => c.get('db').query(groupNamesStatement(program.id)),
    show: (rows, groups: GroupName[] = [], count) => {
      const moves = manages && groups.length > 0 && rows.length > 0
      const isFiltered = Object.values(query).some(Boolean)
      return {
        lead: 'The people and sites that refer customers to you.',
        what: 'Name, e-mail or code',
        sorts,
        ...(groups.length > 0 && {
          choices: [{ name: 'group', label: 'Group', options: [['', 'Any'], ...optionsOf(groups)] }],
        }),
        actions: manages && (
          <>
            {count > 1 && (
              <AllThatMatch
                programId={program.id}
                text={`All ${formatNumber(count)} that match`}
                kinds={kindsFor(filters.status)}
                query={query}
              />
            )}
            <AddPartner address={address} open={rows.length === 0 && !isFiltered} />
          </>
        ),
        above: moves && <MoveSome address={address} partners={rows} groups={groups} />,
        below: (
          <CountingHelp
            names={['Clicks', 'Sales', 'Revenue', 'Commission']}
            note={`All-time figures. Revenue and commission are in ${program.currency.toUpperCase()} and up to a minute old. The line shows the revenue of the last ${daysOfLine} days.`}
          />
        ),
        caption: 'Partners of this program',
        columns: [
          moves && { label: selectLabel, cell: ({ id, name }) => <SelectRow id={id} label={name} /> },
          ...partnerColumns(program),
          manages && { cell: (partner) => <PartnerActions partner={partner} address={address} program={program} /> },
        ],
        empty: {
          title: 'No partners yet',
          text: 'Add the first one. They get a link to your site, and every sale through it is attributed to them.',
        },
      }
    },
    file: () => `partners-${program.id}`,
    csv: (partners) => partnersCsv(program, partners),
  }
})

interface GroupName {
  id: number
  name: string
}

interface MoveSomeProps {
  address: string
  partners: PartnerOfProgram[]
  groups: GroupName[]
}

/** Moves the selected partners, or all on the page, to a group. */
function MoveSome({ address, partners, groups }: MoveSomeProps) {
  const options = [...optionsOf(groups), ['', 'None'] as const]
  return (
    <SelectionForm action={`${address}/move`} ids={partners.map(({ id }) => id)}>
      <Field name="to" label="Move to group" options={options} value={String(groups[0]?.id)} />
      <SelectionButtons
        verb="Move"
        count={partners.length}
        confirm={`Move all ${partners.length} partners on this page? They earn under the group's rules from now on.`}
      />
    </SelectionForm>
  )
}

/** The actions on all partners that match. Inactive partners can't be deactivated, invited or written to. */
const kindsFor = (status: string | undefined) =>
  (status ?? 'active') === 'active'
    ? (['message', 'move', 'rate', 'invite', 'deactivate'] as const)
    : (['move', 'rate'] as const)

const moveForm = z.looseObject({
  which: z.enum(['chosen', 'shown'], 'Select which partners to move.'),
  shown: shownField,
  to: optionalText.check(z.regex(/^([1-9]\d{0,14})?$/, 'Choose a group.')),
})

pages.post('/partners/move', requireProgram('partner:manage'), form(moveForm), async (c) => {
  const { id: programId } = c.get('program')
  const { to, ...selection } = c.req.valid('form')
  const ids = idsOf(selection)
  if (ids.length === 0) return await refuseForm(c, partnersPage(c), { problem: 'Select at least one partner first.' })
  const moved = await movePartners(c.get('db'), programId, ids, positiveInteger(to) ?? null)
  const who = moved === 1 ? '1 partner is' : `${moved} partners are`
  const where = to === '' ? "in no group and earn under the program's terms" : 'in the group and earn under its rules'
  return redirectWith(c, backTo(c, partnersPage(c)), `${who} ${where} from now on.`)
})

function AddPartner({ address, open }: { address: string; open: boolean }) {
  return (
    <FormDetails summary="Add a partner" action={address} submit="Add partner" open={open} primary>
      <NewPartnerFields />
    </FormDetails>
  )
}

/** The fields of a new partner. */
export function NewPartnerFields() {
  return (
    <>
      <Field name="name" label="Name" required />
      <Field
        name="email"
        label="E-mail"
        type="email"
        hint="They get an invitation to see their earnings. Without an address, they only get a link."
      />
      <Field name="code" label="Code" hint="The code in their link, after aff=. Leave empty to generate one." />
    </>
  )
}

const addForm = z.object({
  name: nameField("Enter the partner's name."),
  email: optionalEmail,
  code: optionalText.check(
    z.trim(),
    z.regex(/^[A-Za-z0-9._@-]{0,64}$/, 'Use only letters, digits and . _ @ -, at most 64 characters.'),
  ),
})

pages.post('/partners', requireProgram('partner:manage'), form(addForm, partnersPage, 'code'), async (c) => {
  const { name, email, code } = c.req.valid('form')
  const partner = { programId: c.get('program').id, name, email: email || null, code: code || null }
  const added = await addPartner(c.get('db'), partner)
  const text = `${name} is a partner with the code ${added.code}.`
  if (email === '') return redirectWith(c, partnersPage(c), text)
  // The partner is added even if the mail fails. A button in the list sends the mail again.
  try {
    return redirectWith(c, partnersPage(c), `${text} ${await invite(c, { id: added.partnerId, email })}`)
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return redirectWith(c, partnersPage(c), `${text} No invitation was sent. ${error.message}`, 'warn')
  }
})

/** Mails a partner the invitation to their account. Returns the message for the page. */
async function invite(c: ProgramContext, { id, email }: { id: number; email: string | null }): Promise<string> {
  const { id: programId, name, workspaceId } = c.get('program')
  const { user } = c.get('viewer')
  const [db, sender] = [c.get('db'), { workspaceId, user }]
  if (email !== null) await countInvitationMail(db, sender, email)
  const invitation = await invitePartner(db, { programId, partnerId: id, invitedBy: user.id })
  if (!invitation) throw new ApiError('conflict', 'This partner has no e-mail address, or already has an account.')
  const link = `${c.env.BASE_URL}/partner-invitation?token=${invitation.token}`
  const { email: to, language } = invitation
  await mailPartnerInvitation(db, c.env, sender, { to, programId, name, language, link, days: 14 })
  return 'An invitation is on its way.'
}

/** Returns the page that sent a form about a partner: the partner's page or the list. */
function backToPage(c: ProgramContext, partner: { id: number }): string {
  const own = partnerAddress(c.get('program').id, partner.id)
  return cameFrom(c)?.split('?')[0] === own ? own : backTo(c, partnersPage(c))
}

/** Loads the partner in the path. Refuses partners of other programs. */
const partnerOf = (c: ProgramContext) => readPartner(c.get('db'), c.get('program').id, partnerIn(c))

pages.post('/partners/:partnerId/invite', requireProgram('partner:manage'), requireVerified, async (c) => {
  const partner = await partnerOf(c)
  return redirectWith(c, backToPage(c, partner), await invite(c, partner))
})

pages.post('/partners/:partnerId/end', requireProgram('partner:manage'), async (c) => {
  const { id: programId } = c.get('program')
  const partner = await partnerOf(c)
  await endPartnership(c.get('db'), { programId, partnerId: partner.id })
  return redirectWith(
    c,
    backToPage(c, partner),
    `The partnership with ${partner.name} ended. They keep their earnings.`,
  )
})

for (const [verb, active, done] of [
  ['activate', true, 'active again'],
  ['deactivate', false, 'deactivated, and clicks on their links are refused'],
] as const) {
  pages.post(`/partners/:partnerId/${verb}`, requireProgram('partner:manage'), async (c) => {
    const { id: programId } = c.get('program')
    const partner = await partnerOf(c)
    await updatePartner(c.get('db'), programId, partner.id, { is_active: active })
    const undo = `${partnerAddress(programId, partner.id)}/${active ? 'deactivate' : 'activate'}`
    return redirectWith(c, backToPage(c, partner), `${partner.name} is ${done}.`, 'good', undo)
  })
}
