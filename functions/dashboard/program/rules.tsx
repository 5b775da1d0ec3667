import type { Child } from 'hono/jsx'
import * as z from 'zod/mini'
import { type Action, may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { formatMoney, majorUnits } from '../../../lib/money.ts'
import {
  changeRule,
  monthBefore,
  previewedMonth,
  previewRules,
  type RuleChange,
  type RuleHolder,
  type RulePreview,
  ruleText,
  type StoredRule,
} from '../../../lib/programs/commission-rules.ts'
import { type CommissionRule, typedRule } from '../../../lib/programs/commission-terms.ts'
import { addressOf, positiveInteger } from '../components/address.ts'
import { Card, LinkButton, Metric, Segments } from '../components/blocks.tsx'
import { Field, Hidden, PostButton, Problem } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { emptyForm, form, FormContext, refuseForm, useFormOf } from '../components/form.ts'
import { Day } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { useRequest } from '../components/request.ts'
import { formToken } from '../components/once.ts'
import { createPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { Table, TableCard } from '../components/table.tsx'
import { decimalToInteger, smallestUnits } from '../components/typed-number.ts'
import { partnerAddress } from './partner-columns.tsx'

/** A page that changes one rule at a time and shows a preview. Groups, partners and the whole program share this page. */
interface RulesPage {
  /** The route of the page. The addresses of its forms begin with this route. */
  path: string
  /** The permission to change rules. */
  action: Action
  /** The navigation entry of the page. */
  current: string
  /** Reads the owner of the rules from the path, with the owner's name and current rules. Throws `not_found`. */
  read: (c: ProgramContext) => Promise<RulesOf>
}

export interface RulesOf {
  holder: RuleHolder
  name: string
  address: string
  rules: Rule[]
}

/** A rule, from a row or from a response. */
export type Rule = Omit<StoredRule, 'created_at'> & { created_at: Date | string }

interface RuleCardsProps {
  of: RulesOf
  /** The permission to change rules. */
  action: Action
  /** The message if there are no rules. */
  none: Child
}

/** The current rules, with links to change them, and a form that adds one. */
export function RuleCards({ of, action, none }: RuleCardsProps) {
  const c: ProgramContext = useRequest()
  const { currency, roles } = c.get('program')
  const changes = may(roles, action)
  return (
    <>
      <TableCard
        title="Rules"
        caption="Rules that apply now"
        rows={of.rules}
        columns={[
          { label: 'Rule', cell: (rule) => ruleText(rule, currency) },
          { label: 'Since', cell: ({ created_at: since }) => <Day at={since} /> },
          changes && { cell: (rule) => <RuleLinks id={rule.id} address={of.address} /> },
        ]}
        none={none}
      />
      {changes && <RuleCard of={of} rule={ruleInQuery(c, of.rules)} currency={currency} />}
    </>
  )
}

function RuleLinks({ id, address }: { id: number; address: string }) {
  const [change, end] = [`${address}?rule=${id}#rule`, `${address}/preview?ends=${id}`]
  return (
    <div class="row right">
      <LinkButton class="compact" href={change} label={`Change rule ${id}`} text="Change" />
      <LinkButton class="compact" href={end} label={`End rule ${id}`} text="End" />
    </div>
  )
}

interface RuleFormProps {
  of: RulesOf
  currency: string
  /** The rule that the form changes. */
  rule?: Rule | undefined
  /** True if the page shows the preview. */
  isPreviewed?: boolean
}

/** The form for a rule, with buttons that preview and save it. */
function RuleForm({ of: { holder, address }, currency, rule, isPreviewed = false }: RuleFormProps) {
  const action = `${address}/save`
  const state = useFormOf(action)
  const amount = (cents: number | null | undefined) => (cents ? String(majorUnits(cents, currency)) : '')
  const inCurrency = `In ${currency.toUpperCase()}.`
  const replaced = state.values['replaces'] ?? (rule && String(rule.id))
  return (
    <FormContext.Provider value={state}>
      <form method="post" data-token="button" action={action} class="stack" id="rule">
        <Problem />
        <Hidden fields={{ replaces: replaced }} />
        <div class="fields">
          <Field
            name="commission_bp"
            label="Percentage per sale"
            value={rule && String(rule.commission_bp / 100)}
            inputmode="decimal"
            hint="Of the amount without tax. Leave empty for none."
          />
          <Field
            name="commission_fixed_cents"
            label="Fixed amount per sale"
            value={amount(rule?.commission_fixed_cents)}
            inputmode="decimal"
            hint={`${inCurrency} Added to the percentage.`}
          />
          <Field
            name="commission_duration_months"
            label="Months"
            value={rule?.commission_duration_months ? String(rule.commission_duration_months) : ''}
            inputmode="numeric"
            hint="After a customer's first purchase. Leave empty for no limit."
          />
          <Field
            name="lifetime_cap_cents"
            label="Cap per customer"
            value={rule?.lifetime_cap_cents === null ? '' : amount(rule?.lifetime_cap_cents)}
            inputmode="decimal"
            hint={`${inCurrency} For all their sales together. Leave empty for no limit.`}
          />
          <Field
            name="product_id"
            label="Only for the product or price"
            value={rule?.product_id ?? ''}
            placeholder="prod_… or price_…"
            hint="The id at your processor. Leave empty for every product."
          />
          <Field
            name="sale_type"
            label="Only for sales of the type"
            value={rule?.sale_type ?? ''}
            placeholder="subscription"
            hint="The sale_type that your server sends. Leave empty for every type."
          />
          {holder !== 'everybody' && (
            <Field
              name="lead_commission_cents"
              label="Amount per signup"
              value={rule?.lead_commission_cents === null ? '' : amount(rule?.lead_commission_cents)}
              inputmode="decimal"
              hint={`${inCurrency} Leave empty for the amount without this rule.`}
            />
          )}
        </div>
        <div class="row">
          <button
            type="submit"
            formmethod="get"
            formaction={`${address}/preview`}
            class={isPreviewed ? undefined : 'primary'}
          >
            {isPreviewed ? 'Preview again' : 'Preview'}
          </button>
          <button name={formToken} type="submit" class={isPreviewed ? 'primary' : undefined}>
            {isPreviewed ? 'Save rule' : 'Save without a preview'}
          </button>
        </div>
      </form>
    </FormContext.Provider>
  )
}

const postedRule = z.looseObject({ replaces: z.optional(z.string()) })

const cents = (text: string, currency: string) => (text === '' ? null : smallestUnits(text, currency))

/** Parses a typed rule, or returns its errors by field. People type percentages and amounts with decimals. */
function ruleIn(
  typed: Record<string, unknown>,
  currency: string,
  holder: RuleHolder,
): { rule: CommissionRule } | { errors: Record<string, string> } {
  const text = (name: string) => {
    const value = typed[name]
    return typeof value === 'string' ? value.trim() : ''
  }
  const { success, data, error } = typedRule.safeParse({
    commission_bp: decimalToInteger(text('commission_bp') || '0', 2),
    commission_fixed_cents: cents(text('commission_fixed_cents'), currency) ?? 0,
    lifetime_cap_cents: cents(text('lifetime_cap_cents'), currency),
    lead_commission_cents: holder === 'everybody' ? null : cents(text('lead_commission_cents'), currency),
    commission_duration_months:
      text('commission_duration_months') === '' ? null : decimalToInteger(text('commission_duration_months'), 0),
    product_id: text('product_id') || null,
    sale_type: text('sale_type') || null,
  })
  if (!success) {
    const errors: Record<string, string> = {}
    for (const issue of error.issues) errors[String(issue.path[0])] ??= issue.message
    return { errors }
  }
  const problem = emptyProblem(text, holder)
  return problem ? { errors: problem } : { rule: data }
}

function emptyProblem(text: (name: string) => string, holder: RuleHolder): Record<string, string> | undefined {
  if (holder === 'everybody' && text('product_id') === '' && text('sale_type') === '')
    return { product_id: 'Enter a product or a type. The settings contain the terms for all others.' }
  const terms = ['commission_bp', 'commission_fixed_cents', 'lead_commission_cents']
  return terms.some((name) => text(name) !== '') ? undefined : { commission_bp: 'Enter the commission, or 0 for none.' }
}

/** Returns the rule in the query, as the initial values of the form. */
function ruleInQuery(c: ProgramContext, rules: Rule[]): Rule | undefined {
  const id = positiveInteger(c.req.query('rule'))
  return rules.find((rule) => rule.id === id)
}

/** Creates the routes that preview and save rules. The caller renders the page itself. */
export function createRulePages({ path, action, current, read }: RulesPage) {
  const pages = createPages()

  pages.get(`${path}/preview`, requireProgram(action), async (c) => {
    const program = c.get('program')
    const of = await read(c)
    const query = c.req.query()
    const ends = of.rules.find(({ id }) => id === positiveInteger(query['ends']))
    const typed = ends ? { rule: undefined } : ruleIn(query, program.currency, of.holder)
    const errors = 'errors' in typed ? typed.errors : {}
    const change: RuleChange = ends
      ? { ends: ends.id }
      : { ends: positiveInteger(query['replaces']), begins: 'rule' in typed ? typed.rule : undefined }
    const parsed = previewedMonth.safeParse(query['month'])
    const month = parsed.success ? parsed.data : monthBefore(new Date())
    const preview =
      'errors' in typed ? undefined : await previewRules(c.get('db'), program.id, of.holder, change, month)
    const entered = { action: `${of.address}/save`, values: query, errors }
    const at = (which: string) => addressOf(`${of.address}/preview`, { ...query, month: which })
    return c.render(
      <ProgramPage
        title={`Preview · ${of.name}`}
        current={current}
        heading={ends ? `End a rule for ${of.name}` : `Preview of a rule for ${of.name}`}
        lead={<a href={of.address}>Back to the rules. Nothing has been saved yet.</a>}
      >
        {preview && (
          <Preview
            program={program}
            preview={preview}
            rule={ends ?? change.begins}
            isEnd={ends !== undefined}
            addressAt={at}
          />
        )}
        {ends ? (
          <Card title="End this rule">
            <p>{ruleText(ends, program.currency)}</p>
            <p class="muted">Earlier sales keep their commissions.</p>
            <div class="row">
              <PostButton
                action={`${of.address}/end`}
                class="danger"
                fields={{ ends: String(ends.id) }}
                text="End rule"
              />
            </div>
          </Card>
        ) : (
          <FormContext.Provider value={entered}>
            <Card title="The rule">
              <RuleForm of={of} currency={program.currency} isPreviewed={preview !== undefined} />
            </Card>
          </FormContext.Provider>
        )}
      </ProgramPage>,
    )
  })

  pages.post(`${path}/save`, requireProgram(action), form(postedRule), async (c) => {
    const program = c.get('program')
    const of = await read(c)
    const { replaces, ...typed } = c.req.valid('form')
    const entered = ruleIn(typed, program.currency, of.holder)
    if ('errors' in entered) return await refuseForm(c, of.address, { errors: entered.errors })
    const change = { ends: positiveInteger(replaces), begins: entered.rule }
    await changeRule(c.get('db'), program.id, of.holder, change)
    return redirectWith(c, of.address, 'Saved. New sales earn under this rule.')
  })

  pages.post(`${path}/end`, requireProgram(action), form(z.object({ ends: z.string() })), async (c) => {
    const ends = positiveInteger(c.req.valid('form').ends)
    const of = await read(c)
    await changeRule(c.get('db'), c.get('program').id, of.holder, { ends })
    return redirectWith(c, of.address, 'The rule has ended. Earlier sales keep their commissions.')
  })

  return pages
}

interface PreviewProps {
  program: ViewerProgram
  preview: RulePreview
  rule: Omit<Rule, 'id' | 'created_at'> | CommissionRule | undefined
  isEnd: boolean
  addressAt: (month: string) => string
}

/** The number of partners in a preview. */
const shownPartners = 20

const monthNames = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric', timeZone: 'UTC' })
const nameOf = (month: string) => monthNames.format(new Date(`${month}-01T00:00:00Z`))

function Preview({ program: { id: programId, currency }, preview, rule, isEnd, addressAt }: PreviewProps) {
  const thisMonth = new Date().toISOString().slice(0, 7)
  const months = [...new Set([preview.month, monthBefore(new Date()), thisMonth])].toSorted()
  const own = preview.totals.find((total) => total.currency === currency)
  const others = preview.totals.filter((total) => total !== own)
  const money = (amount = 0, of = currency) => formatMoney(amount, of)
  const changeOf = ({ now_cents: now, then_cents: then, currency: of }: RulePreview['partners'][number]) =>
    `${then > now ? '+' : '−'}${money(Math.abs(then - now), of)}`
  return (
    <Card
      title={`Commissions of ${nameOf(preview.month)}`}
      aside={
        <Segments
          label="Month"
          items={months.map((month) => ({
            href: addressAt(month),
            text: month === thisMonth ? `${nameOf(month)} so far` : nameOf(month),
            current: month === preview.month,
          }))}
        />
      }
    >
      {rule && !isEnd && <p>{ruleText({ ...emptyRule, ...rule }, currency)}</p>}
      <dl class="cards">
        <Metric label="Under today's rules" value={money(own?.now_cents)} />
        <Metric label={isEnd ? 'Without this rule' : 'With this rule'} value={money(own?.then_cents)} />
        <Metric label="Actual commissions" value={money(own?.actual_cents)} />
      </dl>
      {others.map((other) => (
        <p class="muted small">
          In {other.currency.toUpperCase()}: {money(other.now_cents, other.currency)} under today's rules,{' '}
          {money(other.then_cents, other.currency)} with the change, {money(other.actual_cents, other.currency)} actual.
        </p>
      ))}
      <p class="muted small">
        Sales and signups of the month before refunds, with partners in their current groups. Past commissions don't
        change.
      </p>
      {preview.partners.length === 0 ? (
        <p>No partner would have earned more or less.</p>
      ) : (
        <Table
          caption="Partners whose commissions would differ, the largest differences first"
          rows={preview.partners.slice(0, shownPartners)}
          columns={[
            {
              label: 'Partner',
              cell: ({ partner_id: id, name }) => <a href={partnerAddress(programId, id)}>{name}</a>,
            },
            { label: 'Today', right: true, cell: ({ now_cents: now, currency: of }) => money(now, of) },
            { label: 'Then', right: true, cell: ({ then_cents: then, currency: of }) => money(then, of) },
            { label: 'Difference', right: true, cell: changeOf },
          ]}
        />
      )}
      {preview.partners.length > shownPartners && <p class="muted small">The {shownPartners} largest differences.</p>}
    </Card>
  )
}

const emptyRule = {
  product_id: null,
  sale_type: null,
  commission_bp: 0,
  commission_fixed_cents: 0,
  lifetime_cap_cents: null,
  commission_duration_months: null,
  lead_commission_cents: null,
}

interface RuleCardProps {
  of: RulesOf
  /** The rule that the form changes. */
  rule: Rule | undefined
  currency: string
}

/** A card with a form that adds or changes a rule. */
function RuleCard({ of, rule, currency }: RuleCardProps) {
  const isRefused = useFormOf(`${of.address}/save`) !== emptyForm
  return (
    <Card>
      <details class="more" open={rule !== undefined || isRefused || of.rules.length === 0}>
        <summary>{rule ? 'Change the rule' : 'Add a rule'}</summary>
        <p class="muted">
          New sales earn under it, and earlier sales keep their commissions. It replaces a rule for the same product or
          type.
        </p>
        <RuleForm of={of} currency={currency} rule={rule} />
      </details>
    </Card>
  )
}
