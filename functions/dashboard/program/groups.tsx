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
  makeGroup,
  type PartnerGroup,
  readGroup,
  removeGroup,
} from '../../../lib/programs/groups.ts'
import { listPartners, readPartner } from '../../../lib/programs/partners.ts'
import { programStatement } from '../../../lib/programs/programs.ts'
import { addressOf, idInPath } from '../components/address.ts'
import { Card, Heading } from '../components/blocks.tsx'
import { Field, PostButton, Problem, Submit } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { emptyForm, form, type FormState, refuseConflict, shownForm } from '../components/form.ts'
import { formatNumber } from '../components/format.tsx'
import { renderProgram } from '../components/layout.tsx'
import { List, readPageById } from '../components/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { Table } from '../components/table.tsx'
import { partnerAddress, PartnerState } from './partner-columns.tsx'
import { changesRules, createRulePages, type Rule, RuleCard, type RulesOf, RulesTable } from './rules.tsx'

/** Groups of partners and their rules, rules for everybody by product, and a partner's custom rules. */
export const groupPages = createPages()

const addressIn = (programId: number) => `/programs/${programId}/groups`
const groupsPage = (c: ProgramContext) => addressIn(c.get('program').id)
const groupIn = (c: ProgramContext) => idInPath(c, 'groupId', 'This program has no such group.')
const groupPage = (c: ProgramContext) => `${groupsPage(c)}/${groupIn(c)}`
const [manage, manageEverybodys] = ['partner:manage', 'program:update'] as const

groupPages.get('/programs/:programId/groups', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const db = c.get('db')
  const address = addressIn(program.id)
  const shown = shownForm(c)
  const manages = may(program.roles, manage)
  const [page, [[settings], everybodys]] = await Promise.all([
    readPageById(c, address, (part) => listGroups(db, program.id, part)),
    db.batch([programStatement(program.id), defaultTermsStatement(program.id)]),
  ])
  return renderProgram(c, {
    title: 'Groups',
    current: '/groups',
    children: (
      <>
        <Heading title="Groups" lead="Partners of a group earn by its rules instead of the program’s." />
        {manages && (
          <Card>
            <details class="more" open={shown !== emptyForm || page.rows.length === 0}>
              <summary>Create a group</summary>
              <form method="post" action={address} class="stack">
                <Problem form={shown} />
                <Field name="name" label="Name" placeholder="Gold" form={shown} required />
                <Submit>Create group</Submit>
              </form>
            </details>
          </Card>
        )}
        <List
          page={page}
          caption="Groups of partners, newest first"
          columns={[
            {
              label: 'Group',
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
          empty={{ title: 'No groups yet', text: "Every partner earns by the program's terms." }}
        />
        <Card title="Everybody" aside={<a href={`${address}/everybody`}>Rules by product</a>}>
          {settings && (
            <p>
              {termsOfPartner({ ...settings, currency: program.currency }, []).join('; ')}, by the{' '}
              <a href={`/programs/${program.id}/settings`}>settings</a>.
            </p>
          )}
          {everybodys.length > 0 && <RuleList rules={everybodys} currency={program.currency} />}
        </Card>
        <p class="muted">
          The first existing rule applies. The order is: custom rule for the product, custom rule for every sale, group
          rule for the product, group rule for every sale, rule by product, settings.
        </p>
      </>
    ),
  })
})

const membersOf = (programId: number, groupId: number) =>
  addressOf(`/programs/${programId}/partners`, { group: String(groupId) })

/** Describes rules in words. */
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

groupPages.post('/programs/:programId/groups', requireProgram(manage), form(nameForm, groupsPage), async (c) => {
  const { id: programId } = c.get('program')
  try {
    const { id } = await makeGroup(c.get('db'), programId, { ...c.req.valid('form'), rules: [] })
    return redirectWith(c, `${groupsPage(c)}/${id}`, 'The group is created. Add its rules, then its partners.')
  } catch (error) {
    return await refuseConflict(c, groupsPage(c), 'name', error)
  }
})

const everybodysPath = '/programs/:programId/groups/everybody'

const readEverybodys = async (c: ProgramContext): Promise<RulesOf> => ({
  holder: 'everybody',
  name: 'everybody',
  address: `${groupsPage(c)}/everybody`,
  rules: await defaultTermsNow(c.get('db'), c.get('program').id),
})

groupPages.get(everybodysPath, requireProgram('partner:list'), async (c) => {
  const { currency } = c.get('program')
  const of = await readEverybodys(c)
  const changes = changesRules(c, manageEverybodys)
  return renderProgram(c, {
    title: 'Rules by product',
    current: '/groups',
    children: (
      <>
        <Heading title="Rules by product" lead="For every partner, unless a custom rule or a group rule applies." />
        <Card title="Rules">
          <RulesTable
            of={of}
            currency={currency}
            changes={changes}
            none="None: all products earn what the settings say."
          />
        </Card>
        {changes && <RuleCard c={c} of={of} form={shownForm(c)} />}
      </>
    ),
  })
})

groupPages.route(
  '/',
  createRulePages({ path: everybodysPath, action: manageEverybodys, current: '/groups', read: readEverybodys }),
)

const groupPath = '/programs/:programId/groups/:groupId'

async function readGroupRules(c: ProgramContext): Promise<RulesOf & { group: PartnerGroup }> {
  const group = await readGroup(c.get('db'), c.get('program').id, groupIn(c))
  return { holder: { groupId: group.id }, name: group.name, address: groupPage(c), rules: group.rules, group }
}

/** The number of partners on a group's page. */
const newestMembers = 10

groupPages.get(groupPath, requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const groupId = groupIn(c)
  const [of, members] = await Promise.all([
    readGroupRules(c),
    listPartners(c.get('db'), program.id, { group_id: groupId, limit: newestMembers }),
  ])
  const { group, address } = of
  const manages = may(program.roles, manage)
  const shown = shownForm(c)
  return renderProgram(c, {
    title: group.name,
    current: '/groups',
    children: (
      <>
        <Heading
          title={group.name}
          lead={`${formatNumber(group.partners)} ${group.partners === 1 ? 'partner' : 'partners'}`}
        >
          {manages && (
            <PostButton
              action={`${address}/remove`}
              class="danger"
              confirm={`Remove group ${group.name}? Its rules end, and its partners earn by the program's terms from now on.`}
            >
              Remove group
            </PostButton>
          )}
        </Heading>
        <Card title="Rules">
          <RulesTable
            of={of}
            currency={program.currency}
            changes={manages}
            none="None yet. Its partners earn by the program's terms."
          />
        </Card>
        {manages && <RuleCard c={c} of={of} form={'name' in shown.errors ? emptyForm : shown} />}
        <Card title="Partners" aside={<a href={membersOf(program.id, group.id)}>All partners of the group</a>}>
          {members.length === 0 ? (
            <p class="muted">None yet. Select partners in the list of partners, then move them here.</p>
          ) : (
            <Table
              caption="The newest partners of the group"
              rows={members}
              columns={[
                {
                  label: 'Partner',
                  cell: (partner) => (
                    <span>
                      <a href={partnerAddress(program.id, partner.id)}>{partner.name}</a>{' '}
                      <PartnerState partner={partner} />
                    </span>
                  ),
                },
                {
                  label: 'Custom rules',
                  cell: ({ rules }) =>
                    rules.length === 0 ? 'none' : <RuleList rules={rules} currency={program.currency} />,
                },
              ]}
            />
          )}
        </Card>
        {manages && <Rename address={address} name={group.name} form={shown} />}
      </>
    ),
  })
})

function Rename({ address, name, form: shown }: { address: string; name: string; form: FormState }) {
  return (
    <Card title="Name">
      <form method="post" action={`${address}/rename`} class="row end">
        <Field name="name" label="Name" value={name} form={shown} required />
        <button type="submit">Rename</button>
      </form>
    </Card>
  )
}

groupPages.post(`${groupPath}/rename`, requireProgram(manage), form(nameForm, groupPage), async (c) => {
  try {
    await changeGroup(c.get('db'), c.get('program').id, groupIn(c), c.req.valid('form'))
  } catch (error) {
    return await refuseConflict(c, groupPage(c), 'name', error)
  }
  return redirectWith(c, groupPage(c), 'Renamed.')
})

groupPages.post(`${groupPath}/remove`, requireProgram(manage), async (c) => {
  const members = await removeGroup(c.get('db'), c.get('program').id, groupIn(c))
  const whose = members === 1 ? 'Its partner earns' : `Its ${formatNumber(members)} partners earn`
  return redirectWith(
    c,
    groupsPage(c),
    members === 0 ? 'The group is removed.' : `The group is removed. ${whose} by the program's terms from now on.`,
  )
})

groupPages.route('/', createRulePages({ path: groupPath, action: manage, current: '/groups', read: readGroupRules }))

const partnerRulesPath = '/programs/:programId/partners/:partnerId/rules'

async function readPartnerRules(c: ProgramContext): Promise<RulesOf> {
  const { id: programId } = c.get('program')
  const partner = await readPartner(
    c.get('db'),
    programId,
    idInPath(c, 'partnerId', 'This program has no such partner.'),
  )
  return {
    holder: { partnerId: partner.id },
    name: partner.name,
    address: `${partnerAddress(programId, partner.id)}/rules`,
    rules: partner.rules,
  }
}

groupPages.get(partnerRulesPath, requireProgram('partner:list'), async (c) => {
  const { id: programId, currency } = c.get('program')
  const of = await readPartnerRules(c)
  const changes = changesRules(c, manage)
  return renderProgram(c, {
    title: `Rules of ${of.name}`,
    current: '/partners',
    children: (
      <>
        <Heading
          title={`Custom rules of ${of.name}`}
          lead={
            <>
              They take precedence over the group's rules.{' '}
              <a href={of.address.replace(/\/rules$/, '')}>Back to the partner</a>
            </>
          }
        />
        <Card title="Rules">
          <RulesTable
            of={of}
            currency={currency}
            changes={changes}
            none={
              <>
                None: they earn as their <a href={addressIn(programId)}>group</a> does, or by the terms of the program.
              </>
            }
          />
        </Card>
        {changes && <RuleCard c={c} of={of} form={shownForm(c)} />}
      </>
    ),
  })
})

groupPages.route(
  '/',
  createRulePages({ path: partnerRulesPath, action: manage, current: '/partners', read: readPartnerRules }),
)
