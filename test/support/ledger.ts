import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { apiKeyHash, generateApiKey } from '../../lib/access/api-keys.ts'
import { recordClick } from '../../lib/tracking/clicks.ts'
import type { Database } from '../../lib/database.ts'
import { recordServerLead } from '../../lib/tracking/leads.ts'
import { recordSale, type RecordedSale } from '../../lib/money/sales.ts'
import { type AppliedRefund, refundSale } from '../../lib/money/refunds.ts'
import { webhookTypes } from '../../lib/notifications/webhook-types.ts'
import type { JoinedPartner } from './joined-partner.ts'
import { statement } from './statement.ts'

/**
 * A program with two partners, who have the codes CODE-0 and CODE-1, for tests of money. Each method is one call for
 * this program.
 */
export interface LedgerProgram {
  programId: number
  partnerIds: number[]
  apiKey: string
  /** The code of a partner's link. */
  codeOf(partner: number): string
  /** Records a click on a partner's link, by a bot if requested. */
  click(partner: number, isBot?: boolean): Promise<string>
  /** Adds a joined partner at the end. */
  add(joined: JoinedPartner): void
  lead(customerKey: string, clickId: string | null): Promise<void>
  sale(sale: {
    id: string
    customerKey: string
    amount: number
    currency: string
    type?: string
    clickId?: string | null
    coupon?: string
  }): Promise<RecordedSale>
  /** Records a sale to a partner's new customer, with its commission. */
  soldBy(
    partner: number,
    amount: number,
    currency?: string,
  ): Promise<{ id: string; commissionId: number; commissionCents: number }>
  refund(saleId: string, amount: number | null, refundId?: string | null): Promise<AppliedRefund>
  returnRefund(saleId: string, refundId: string): Promise<{ returned: boolean }>
}

/** Creates such a program in one statement. Its rate is `commissionBp` basis points. */
export async function createLedgerProgram(
  client: Pick<pg.Pool, 'query'>,
  db: Database,
  settings: { commissionBp?: number; leadCommissionCents?: number; holdDays?: number } = {},
): Promise<LedgerProgram> {
  const tag = randomUUID().slice(0, 13)
  const accountId = `acct_${tag.replace('-', '')}`
  const { key, hint } = await generateApiKey()
  const keyHash = await apiKeyHash(`Bearer ${key}`)
  const { rows } = await client.query<{ program_id: string; partner_ids: string[] }>(
    `with workspace as (insert into workspaces (name) values ('Ledger') returning id),
    program as (
      insert into programs (workspace_id, name, domain, commission_bp, lead_commission_cents, hold_days, processor_account_id)
      select id, 'Ledger', 'shop.example.com', $1, $2, $3, $7 from workspace returning id
    ),
    key as (insert into api_keys (program_id, key_hash, hint) select id, decode($4, 'hex'), $5 from program),
    partner as (
      insert into partners (program_id, name, email)
      select program.id, 'Partner ' || n, n || '-' || $6 || '@example.com' from program, generate_series(0, 1) n returning program_id, id
    ),
    link as (insert into referral_links (code, program_id, partner_id) select $6 || '-' || id, program_id, id from partner),
    code as (
      insert into partner_codes (program_id, partner_id, code)
      select program_id, id, 'CODE-' || row_number() over (order by id) - 1 from partner
    )
    select program.id as program_id, array_agg(partner.id order by partner.id) as partner_ids from program, partner group by program.id`,
    [
      settings.commissionBp ?? 2000,
      settings.leadCommissionCents ?? 0,
      settings.holdDays ?? 30,
      keyHash,
      hint,
      tag,
      accountId,
    ],
  )
  const programId = Number(rows[0]?.program_id)
  const partnerIds = rows[0]?.partner_ids.map(Number) ?? []
  const codes = partnerIds.map((id) => `${tag}-${id}`)

  const program: LedgerProgram = {
    programId,
    partnerIds,
    apiKey: key,
    codeOf: (partner) => codes[partner] ?? '',
    add({ partnerId, code }) {
      partnerIds.push(partnerId)
      codes.push(code)
    },
    async click(partner, isBot = false) {
      const code = program.codeOf(partner)
      const affiliate_url = `https://shop.example.com/?aff=${code}`
      const visit = { device_type: isBot ? 'bot' : 'mobile', geo_country: 'DE', campaign: { utm_source: 'mail' } }
      const click = {
        ...noClick,
        ...visit,
        affiliate_url,
        partner_code: code,
        additional_data: { program_id: programId },
      }
      return (await recordClick(db, click, null)).click_id
    },
    async lead(customerKey, clickId) {
      const lead = { customer_key: customerKey, click_id: clickId, ...noLead }
      await recordServerLead(db, keyHash, lead, null)
    },
    sale: ({ id, customerKey, amount, currency, type = 'payment', clickId = null, coupon }) =>
      recordSale(
        db,
        keyHash,
        {
          ...noSale,
          transaction_id: id,
          customer_key: customerKey,
          click_id: clickId,
          coupon: coupon ?? null,
          amount_cents: amount,
          currency,
          sale_type: type,
        },
        null,
        randomUUID(),
      ),
    async soldBy(partner, amount, currency = 'usd') {
      const id = randomUUID()
      const clickId = await program.click(partner)
      const sale = await program.sale({ id, customerKey: id, amount, currency, clickId })
      return { id, commissionId: Number(sale.commission_id), commissionCents: sale.commission_cents }
    },
    async refund(saleId, amount, refundId = null) {
      const refund = {
        amount_cents: amount,
        refund_id: refundId && refundIdOf(saleId, refundId),
        reason: 'refund',
        reason_text: null,
      } as const
      return (await refundSale(db, keyHash, saleId, refund, randomUUID())).applied
    },
    async returnRefund(saleId, refundId) {
      const id = refundIdOf(saleId, refundId)
      const [, [refund]] = await db.batch([
        statement`select from sales where program_id = ${programId} and transaction_id = ${saleId} for no key update`,
        statement<{ stands: boolean }>`select r.returned_at is null as stands from refunds r
          join sales s on r.program_id = s.program_id and r.sale_id = s.id
          where s.program_id = ${programId} and s.transaction_id = ${saleId} and r.refund_key = ${`id:${id}`}`,
        // Refunds through the API never have this amount, so the two can't be confused.
        statement`insert into processor_reversals (account_id, reversal_id, livemode, reason, payment_intent_id, amount_cents, currency,
            returned_event_id, returned_at)
          select ${accountId}, ${id}, true, 'refund', transaction_id, 9999999999999, currency, 'evt_failed', now()
          from sales where program_id = ${programId} and transaction_id = ${saleId}
          on conflict do nothing`,
        statement`select settle_reversals(s) from sales s where program_id = ${programId} and transaction_id = ${saleId}`,
      ])
      return { returned: refund?.stands ?? false }
    },
  }
  return program
}

/** Gives a program an old endpoint for every kind of webhook. Deliveries are stored but not sent. */
export async function keepWebhooks(client: Pick<pg.Pool, 'query'>, programId: number): Promise<void> {
  await client.query(
    `insert into webhook_endpoints (program_id, types, created_at) values ($1, $2::webhook_type[], now() - interval '1 hour')`,
    [programId, webhookTypes],
  )
}

/** A refund's id at the processor is unique, but tests number the refunds of each sale from the start. */
const refundIdOf = (saleId: string, refundId: string) => `${refundId} of ${saleId}`

/** The current day (UTC). A payout can't have been paid before the month in which it was created. */
export const today = new Date().toISOString().slice(0, 10)

/** The transfer that the tests use for payouts. */
export const transfer = { reference: 'transfer-1', paid_on: new Date(today) }

/** Defaults for the tests' clicks, leads and sales. */
export const noClick = {
  page_url: null,
  page_title: null,
  referrer_url: null,
  session_id: null,
  user_agent: null,
  screen_resolution: null,
  viewport_size: null,
  language: null,
  timezone: null,
  geo_country: null,
  geo_region: null,
  geo_city: null,
  device_type: null,
  device_os: null,
  browser_name: null,
  additional_data: null,
  campaign: null,
}
export const noLead = { is_test: false, email_hash: null, session_id: null, page_url: null, additional_data: null }
export const noSale = {
  sale_type: 'payment',
  is_recurring: false,
  tax_cents: 0,
  subscription_id: null,
  is_test: false,
  additional_data: null,
}
