import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { nameField } from '../../../lib/names.ts'
import {
  defaultTermsNow,
  defaultTermsStatement,
  ruleText,
  termsOfPartner,
} from '../../../lib/programs/commission-rules.ts'
import {
  changeGroup,
  listGroups,
  createGroup,
  type PartnerGroup,
  readGroup,
  removeGroup,
  groupTotals,
} from '../../../lib/programs/groups.ts'
import { listPartners, readPartner } from '../../../lib/programs/partners.ts'
import { programStatement } from '../../../lib/programs/programs.ts'
import { addressOf, idInPath } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Form, FormDetails, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form } from '../components/form.ts'
import { counted, formatNumber } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { byId, List, readPage } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { TableCard } from '../components/table.tsx'
import { partnerAddress, partnerIn, PartnerState } from './partner-columns.tsx'
import { createRulePages, type Rule, RuleCards, type RulesOf } from './rules.tsx'

/** Groups of partners with their rules, product rules for all partners, and custom rules of single partners. */
export const pages = createProgramPages()

const addressIn = (programId: number) => `/programs/${programId}/groups`
const groupsPage = (c: ProgramContext) => addressIn(c.get('program').id)
const groupIn = (c: ProgramContext) => idInPath(c, 'groupId', 'This program has no such group.')
const groupPage = (c: ProgramContext) => `${groupsPage(c)}/${groupIn(c)}`
const [manage, manageEverybodys] = ['partner:manage', 'program:update'] as const

pages.get('/groups', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const db = c.get('db')
  const address = addressIn(program.id)
  const manages = may(program.roles, manage)
  const [page, [[settings], everybodys, totals]] = await Promise.all([
    readPage(c, byId, (part) => listGroups(db, program.id, part)),
    db.batch([programStatement(program.id), defaultTermsStatement(program.id), groupTotals(program.id)]),
  ])
  return c.render(
    <ProgramPage
      title="Groups"
      current="/groups"
      lead="Partners in a group earn under its rules instead of the program’s."
      actions={
        manages && (
          <FormDetails
            summary="Create a group"
            action={address}
            submit="Create group"
            open={page.rows.length === 0}
            primary
          >
            <Field name="name" label="Name" placeholder="Gold" required />
          </FormDetails>
        )
      }
    >
      <List
        page={page}
        totals={totals}
        rows="groups"
        caption="Groups of partners, newest first"
        columns={[
          {
            label: 'Group',
            phone: 'title',
            cell: ({ id, name }) => (
              <a href={`${address}/${id}`}>
                <strong>{name}</strong>
              </a>
            ),
          },
          {
            label: 'Partners',
            right: true,
            cell: ({ id, partners }) => <a href={membersOf(program.id, id)}>{formatNumber(partners)}</a>,
          },
          { label: 'Rules', cell: ({ rules }) => <RuleList rules={rules} currency={program.currency} /> },
        ]}
        empty={{ title: 'No groups yet', text: "Every partner earns under the program's terms." }}
      />
      <Card title="Everyone" aside={<a href={`${address}/everybody`}>Rules by product</a>}>
        {settings && (
          <p>
            {termsOfPartner({ ...settings, currency: program.currency }, []).join('; ')}, by the{' '}
            <a href={`/programs/${program.id}/settings`}>settings</a>.
          </p>
        )}
        {everybodys.length > 0 && <RuleList rules={everybodys} currency={program.currency} />}
      </Card>
      <p class="muted">
        The first matching rule applies, in this order: custom rule for the product, custom rule for every sale, group
        rule for the product, group rule for every sale, rule by product, settings.
      </p>
    </ProgramPage>,
  )
})

const membersOf = (programId: number, groupId: number) =>
  addressOf(`/programs/${programId}/partners`, { group: String(groupId) })

/** Describes rules as text. */
function RuleList({ rules, currency }: { rules: Rule[]; currency: string }) {
  if (rules.length === 0) return <span class="muted">None. The program's terms apply.</span>
  return (
    <div class="stack tight">
      {rules.map((rule) => (
        <span>{ruleText(rule, currency)}</span>
      ))}
    </div>
  )
}

const nameForm = z.object({ name: nameField('Enter the name of the group.') })

pages.post('/groups', requireProgram(manage), form(nameForm, groupsPage, 'name'), async (c) => {
  const { id } = await createGroup(c.get('db'), c.get('program').id, { ...c.req.valid('form'), rules: [] })
  return redirectWith(c, `${groupsPage(c)}/${id}`, 'The group was created. Add its rules, then its partners.')
})

const everybodysPath = '/groups/everybody'

const readEverybodys = async (c: ProgramContext): Promise<RulesOf> => ({
  holder: 'everybody',
  name: 'everybody',
  address: `${groupsPage(c)}/everybody`,
  rules: await defaultTermsNow(c.get('db'), c.get('program').id),
})

pages.get(everybodysPath, requireProgram('partner:list'), async (c) => {
  const of = await readEverybodys(c)
  return c.render(
    <ProgramPage
      title="Rules by product"
      current="/groups"
      lead="For every partner, unless a custom rule or a group rule applies."
    >
      <RuleCards of={of} action={manageEverybodys} none="None. All products earn under the settings." />
    </ProgramPage>,
  )
})

pages.route(
  '/',
  createRulePages({ path: everybodysPath, action: manageEverybodys, current: '/groups', read: readEverybodys }),
)

const groupPath = '/groups/:groupId'

async function readGroupRules(c: ProgramContext): Promise<RulesOf & { group: PartnerGroup }> {
  const group = await readGroup(c.get('db'), c.get('program').id, groupIn(c))
  return { holder: { groupId: group.id }, name: group.name, address: groupPage(c), rules: group.rules, group }
}

/** The number of partners on a group's page. */
const newestMembers = 10

pages.get(groupPath, requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const groupId = groupIn(c)
  const [of, members] = await Promise.all([
    readGroupRules(c),
    listPartners(c.get('db'), program.id, { group_id: groupId, limit: newestMembers }),
  ])
  const { group, address } = of
  const manages = may(program.roles, manage)
  return c.render(
    <ProgramPage
      title={group.name}
      current="/groups"
      lead={counted(group.partners, 'partner', 'partners')}
      actions={
        manages && (
          <PostButton
            action={`${address}/remove`}
            class="danger"
            confirm={`Remove group ${group.name}? Its rules end, and its partners earn under the program's terms from now on.`}
            text="Remove group"
          />
        )
      }
    >
      <RuleCards of={of} action={manage} none="None yet. Its partners earn under the program's terms." />
      <TableCard
        title="Partners"
        aside={<a href={membersOf(program.id, group.id)}>All partners of the group</a>}
        caption="The newest partners of the group"
        rows={members}
        columns={[
          {
            label: 'Partner',
            cell: (partner) => (
              <span>
                <a href={partnerAddress(program.id, partner.id)}>{partner.name}</a> <PartnerState partner={partner} />
              </span>
            ),
          },
          {
            label: 'Custom rules',
            cell: ({ rules }) => (rules.length === 0 ? 'none' : <RuleList rules={rules} currency={program.currency} />),
          },
        ]}
        none="None yet. Select partners in the list of partners, then move them here."
      />
      {manages && <Rename address={address} name={group.name} />}
    </ProgramPage>,
  )
})

function Rename({ address, name }: { address: string; name: string }) {
  return (
    <Card title="Name">
      <Form action={`${address}/rename`} submit="Rename" layout="inline">
        <Field name="name" label="Name" value={name} required />
      </Form>
    </Card>
  )
}

pages.post(`${groupPath}/rename`, requireProgram(manage), form(nameForm, groupPage, 'name'), async (c) => {
  await changeGroup(c.get('db'), c.get('program').id, groupIn(c), c.req.valid('form'))
  return redirectWith(c, groupPage(c), 'Renamed.')
})

pages.post(`${groupPath}/remove`, requireProgram(manage), async (c) => {
  const members = await removeGroup(c.get('db'), c.get('program').id, groupIn(c))
  const whose = members === 1 ? 'Its partner earns' : `Its ${formatNumber(members)} partners earn`
  const effect = members === 0 ? '' : ` ${whose} under the program's terms from now on.`
  return redirectWith(c, groupsPage(c), `The group was removed.${effect}`)
})

pages.route('/', createRulePages({ path: groupPath, action: manage, current: '/groups', read: readGroupRules }))

const partnerRulesPath = '/partners/:partnerId/rules'

async function readPartnerRules(c: ProgramContext): Promise<RulesOf> {
  const { id: programId } = c.get('program')
  const partner = await readPartner(c.get('db'), programId, partnerIn(c))
  return {
    holder: { partnerId: partner.id },
    name: partner.name,
    address: `${partnerAddress(programId, partner.id)}/rules`,
    rules: partner.rules,
  }
}

pages.get(partnerRulesPath, requireProgram('partner:list'), async (c) => {
  const of = await readPartnerRules(c)
  return c.render(
    <ProgramPage
      title={`Rules of ${of.name}`}
      current="/partners"
      heading={`Custom rules of ${of.name}`}
      lead={
        <>
          They take precedence over the group's rules.{' '}
          <a href={of.address.replace(/\/rules$/, '')}>Back to the partner</a>
        </>
      }
    >
      <RuleCards
        of={of}
        action={manage}
        none={
          <>
            None. The rules of the partner's <a href={groupsPage(c)}>group</a> apply, or the program's terms.
          </>
        }
      />
    </ProgramPage>,
  )
})

pages.route(
  '/',
  createRulePages({ path: partnerRulesPath, action: manage, current: '/partners', read: readPartnerRules }),
)
