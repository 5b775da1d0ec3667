import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { ApiError } from '../../../lib/errors.ts'
import { nameField } from '../../../lib/names.ts'
import {
  addPartner,
  listPartnersWithClicks,
  listPartnersWithCodes,
  type PartnerOfProgram,
  partnerSorts,
  partnerStates,
  readPartner,
  updatePartner,
} from '../../../lib/programs/partners.ts'
import { countInvitationMail, mailInvitation } from '../../../lib/programs/invitation-mails.ts'
import { groupNamesStatement, movePartners } from '../../../lib/programs/groups.ts'
import { invitePartner } from '../../../lib/programs/partner-invitations.ts'
import { endPartnership } from '../../../lib/programs/partnerships.ts'
import { backTo, cameFrom, idInPath, positiveInteger } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { CountingHelp } from '../components/counting.tsx'
import { Field, Problem, Submit } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import {
  emptyForm,
  form,
  type FormState,
  optionalText,
  refuseConflict,
  refuseForm,
  shownForm,
} from '../components/form.ts'
import { renderProgram } from '../components/layout.tsx'
import {
  askedOf,
  type Choice as ListChoice,
  exportList,
  idOf,
  ListPage,
  readPageById,
  stateIn,
  type States,
} from '../components/list.tsx'
import { createPages, type ProgramContext, requireProgram, requireVerified } from '../components/page.ts'
import { idsOf, SelectionButtons, SelectionForm, SelectRow, shownField } from '../components/selection.tsx'
import { PartnerActions, partnerAddress, partnerColumns, partnersCsv } from './partner-columns.tsx'

/** Lists a program's partners with their links, figures and balances. */
export const partnerPages = createPages()

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

/** Reads the filters from the query. Searches e-mail addresses only for readers who see them. */
function askedIn(c: ProgramContext) {
  const { partner_id: _, ...asked } = askedOf(c, sorts)
  const searchesEmail = may(c.get('program').roles, 'payout-address:read')
  return { ...asked, searchesEmail, status: stateIn(c, states), group_id: positiveInteger(c.req.query('group')) }
}

async function renderPartners(c: ProgramContext, shown: FormState) {
  const program = c.get('program')
  const address = addressIn(program.id)
  const asked = askedIn(c)
  const query = { q: asked.search, sort: asked.sort, group: asked.group_id?.toString(), status: asked.status }
  const [page, groups] = await Promise.all([
    readPageById(c, address, (part) => listPartnersWithClicks(c.get('db'), program.id, { ...part, ...asked }), query),
    c.get('db').query(groupNamesStatement(program.id)),
  ])
  const isFiltered = asked.search !== undefined || asked.status !== undefined || asked.group_id !== undefined
  const manages = may(program.roles, 'partner:manage')
  const isMove = shown.values['to'] !== undefined
  const moves = manages && groups.length > 0 && page.rows.length > 0
  return renderProgram(c, {
    title: 'Partners',
    current: '/partners',
    children: (
      <ListPage
        title="Partners"
        lead="The people and sites who refer customers to you."
        address={address}
        query={query}
        rows="partners"
        states={states}
        what="Name, e-mail or code"
        sorts={sorts}
        choices={groups.length > 0 ? [groupChoice(groups)] : []}
        page={page}
        caption="Partners of this program"
        columns={[
          moves && { label: 'Select', cell: ({ id, name }: PartnerOfProgram) => <SelectRow id={id} label={name} /> },
          ...partnerColumns(program),
          manages && {
            label: '',
            right: true,
            cell: (partner: PartnerOfProgram) => <PartnerActions partner={partner} address={address} />,
          },
        ]}
        empty={{
          title: 'No partners yet',
          text: 'Add the first one above. They get a link to your site, and every sale from it counts as theirs.',
        }}
      >
        {manages && (
          <AddPartner
            address={address}
            form={isMove ? emptyForm : shown}
            open={(shown !== emptyForm && !isMove) || (page.rows.length === 0 && !isFiltered)}
          />
        )}
        <CountingHelp names={['Clicks', 'Sales']} note="Of all time." />
        {moves && <MoveSome address={address} partners={page.rows} groups={groups} form={isMove ? shown : emptyForm} />}
      </ListPage>
    ),
  })
}

interface Group {
  id: number
  name: string
}

const groupOptions = (groups: Group[]) => groups.map(({ id, name }) => [String(id), name] as const)
const groupChoice = (groups: Group[]): ListChoice => ({
  name: 'group',
  label: 'Group',
  options: [['', 'Any'], ...groupOptions(groups)],
})

/** Moves the selected partners, or all on the page, to a group. */
function MoveSome({
  address,
  partners,
  groups,
  form: shown,
}: {
  address: string
  partners: PartnerOfProgram[]
  groups: Group[]
  form: FormState
}) {
  return (
    <SelectionForm action={`${address}/move`} ids={partners.map(({ id }) => id)} form={shown}>
      <Field
        name="to"
        label="Move to group"
        options={[...groupOptions(groups), ['', 'None']]}
        value={String(groups[0]?.id)}
        form={shown}
      />
      <SelectionButtons
        verb="Move"
        count={partners.length}
        confirm={`Move all ${partners.length} on this page? They earn by its rules from now on.`}
      />
    </SelectionForm>
  )
}

const moveForm = z.looseObject({
  which: z.enum(['chosen', 'shown'], 'Select which partners to move.'),
  shown: shownField,
  to: optionalText.check(z.regex(/^([1-9]\d{0,14})?$/, 'Choose a group.')),
})

partnerPages.post('/programs/:programId/partners/move', requireProgram('partner:manage'), form(moveForm), async (c) => {
  const { id: programId } = c.get('program')
  const { to, ...selection } = c.req.valid('form')
  const ids = idsOf(selection)
  if (ids.length === 0) return await refuseForm(c, partnersPage(c), { problem: 'Select at least one partner first.' })
  const moved = await movePartners(c.get('db'), programId, ids, positiveInteger(to) ?? null)
  const who = moved === 1 ? '1 partner is' : `${moved} partners are`
  const where =
    to === '' ? 'in no group: they earn by the terms of the program' : 'in the group: they earn by its rules'
  return redirectWith(c, backTo(c, partnersPage(c)), `${who} ${where} from now on.`)
})

function AddPartner({ address, form: shown, open }: { address: string; form: FormState; open: boolean }) {
  return (
    <Card>
      <details class="more" open={open}>
        <summary>Add a partner</summary>
        <form method="post" action={address} class="stack">
          <Problem form={shown} />
          <div class="fields">
            <Field name="name" label="Name" form={shown} required />
            <Field
              name="email"
              label="E-mail"
              type="email"
              hint="They get an invitation to see their earnings. Without an address, you only create a link."
              form={shown}
            />
            <Field
              name="code"
              label="Code"
              hint="Part of their link, as aff=code. Leave empty to generate one."
              form={shown}
            />
          </div>
          <Submit>Add partner</Submit>
        </form>
      </details>
    </Card>
  )
}

partnerPages.get('/programs/:programId/partners', requireProgram('partner:list'), (c) =>
  renderPartners(c, shownForm(c)),
)

partnerPages.get('/programs/:programId/partners.csv', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  return await exportList(c, {
    nameOf: () => `partners-${program.id}`,
    read: (part) => listPartnersWithCodes(c.get('db'), program.id, { ...part, ...askedIn(c) }),
    cursorOf: idOf,
    write: (partners) => partnersCsv(program, partners),
  })
})

const addForm = z.object({
  name: nameField("Enter the partner's name."),
  email: z.pipe(
    optionalText,
    z.union([
      z.literal(''),
      z.string().check(z.trim(), z.toLowerCase(), z.maxLength(320), z.email('Enter an e-mail address, or none.')),
    ]),
  ),
  code: optionalText.check(
    z.trim(),
    z.regex(/^[A-Za-z0-9._@-]{0,64}$/, 'Use only letters, digits and . _ @ -, at most 64 characters.'),
  ),
})

partnerPages.post(
  '/programs/:programId/partners',
  requireProgram('partner:manage'),
  form(addForm, partnersPage),
  async (c) => {
    const { id: programId } = c.get('program')
    const { name, email, code } = c.req.valid('form')
    try {
      const partner = { programId, name, email: email || null, code: code || null }
      const added = await addPartner(c.get('db'), partner)
      const text = `${name} is a partner with the code ${added.code}.`
      if (email === '') return redirectWith(c, addressIn(programId), text)
      // Add partner even if the mail fails. The list offers to send it again.
      const invited = await invite(c, { id: added.partnerId, email }).catch((error: unknown) => {
        if (!(error instanceof ApiError)) throw error
        return `No invitation was sent: ${error.message}`
      })
      return redirectWith(c, addressIn(programId), `${text} ${invited}`)
    } catch (error) {
      return await refuseConflict(c, partnersPage(c), 'code', error)
    }
  },
)

/** Mails a partner the invitation to their account. Returns the message for the page. */
async function invite(c: ProgramContext, { id, email }: { id: number; email: string | null }): Promise<string> {
  const { id: programId, name, workspaceId } = c.get('program')
  const { user } = c.get('viewer')
  const [db, sender] = [c.get('db'), { workspaceId, user }]
  if (email !== null) await countInvitationMail(db, sender, email)
  const invitation = await invitePartner(db, { programId, partnerId: id, invitedBy: user.id })
  if (!invitation) throw new ApiError('conflict', 'This partner has no e-mail address, or already has an account.')
  const link = `${c.env.BASE_URL}/partner-invitation?token=${invitation.token}`
  await mailInvitation(db, c.env, sender, { to: invitation.email, what: 'program', name, link, days: 14 })
  return 'An invitation is on its way.'
}

/** Returns the page that sent a form about a partner: the partner's page or the list. */
function backToPage(c: ProgramContext, partner: { id: number }): string {
  const own = partnerAddress(c.get('program').id, partner.id)
  return cameFrom(c)?.split('?')[0] === own ? own : backTo(c, partnersPage(c))
}

/** Loads the partner in the path. Refuses partners of other programs. */
async function partnerOf(c: ProgramContext): Promise<PartnerOfProgram> {
  const missing = 'This program has no such partner.'
  return await readPartner(c.get('db'), c.get('program').id, idInPath(c, 'partnerId', missing))
}

partnerPages.post(
  '/programs/:programId/partners/:partnerId/invite',
  requireProgram('partner:manage'),
  requireVerified,
  async (c) => {
    const partner = await partnerOf(c)
    return redirectWith(c, backToPage(c, partner), await invite(c, partner))
  },
)

partnerPages.post('/programs/:programId/partners/:partnerId/end', requireProgram('partner:manage'), async (c) => {
  const { id: programId } = c.get('program')
  const partner = await partnerOf(c)
  await endPartnership(c.get('db'), { programId, partnerId: partner.id })
  return redirectWith(
    c,
    backToPage(c, partner),
    `The partnership with ${partner.name} ended. What they earned stays theirs.`,
  )
})

for (const [verb, active, done] of [
  ['activate', true, 'active again'],
  ['deactivate', false, 'deactivated: clicks on their links are refused'],
] as const) {
  partnerPages.post(`/programs/:programId/partners/:partnerId/${verb}`, requireProgram('partner:manage'), async (c) => {
    const { id: programId } = c.get('program')
    const partner = await partnerOf(c)
    await updatePartner(c.get('db'), programId, partner.id, { is_active: active })
    return redirectWith(c, backToPage(c, partner), `${partner.name} is ${done}.`)
  })
}
