import { commissionReason } from '../commission-reasons.ts'
import { reasonText } from '../processor-reasons.ts'
import { notifications } from '../texts/messages/notifications.ts'
import { createTexts, type Texts } from '../texts/texts.ts'
import { failingDays } from './failing-days.ts'
import type { ListedNotification } from './notification-list.ts'

/** The amount of a notification, formatted by `write`. */
export function amountOf<Amount>(
  { amount_cents, currency }: ListedNotification['payload'],
  write: (cents: number, currency: string) => Amount,
): Amount | undefined {
  return amount_cents === undefined || currency === undefined ? undefined : write(amount_cents, currency)
}

type NotificationTexts = Pick<Texts<typeof notifications>, 't' | 'fixed' | 'money' | 'day' | 'month'>
const english = createTexts(notifications, 'en')

/**
 * Returns a notification's text, with the partner's name formatted by `writeName`. Partners get the text in their language.
 * Notifications to programs are in English.
 */
export function textOf(
  { kind, payload, partner_name }: Pick<ListedNotification, 'kind' | 'payload' | 'partner_name'>,
  writeName = (name: string) => name,
  { t, fixed, money, day, month }: NotificationTexts = english,
): string {
  const partner = partner_name === null ? 'a partner' : writeName(partner_name)
  const amount = amountOf(payload, money) ?? ''
  const sale = payload.transaction_id ? ` ${t('for the sale {id}', { id: payload.transaction_id })}` : ''
  const code = payload.reason ?? null
  const reason = kind === 'payment_ignored' ? reasonText(code) : commissionReason(code)
  // The typed reason may already end with a period.
  const why = reason ? ` ${t('Reason: {reason}', { reason: fixed(reason).replace(/([^.!?…])$/u, '$1.') })}` : ''
  switch (kind) {
    case 'commission_earned':
      return payload.day
        ? t('You earned {amount} from {count} commissions on {day}.', {
            amount,
            count: payload.commissions ?? 0,
            day: day(new Date(payload.day)),
          })
        : t('You earned {amount}{sale}.', { amount, sale })
    case 'commission_flagged':
      return `Manual review: a commission of ${amount}${sale} for ${partner} is on hold. Decide on it under Reviews.`
    case 'application_received':
      return 'Somebody applied to become a partner. Review the application under Applications.'
    case 'payout_due':
      return `Payouts to ${payload.partners === 1 ? 'a partner' : `${payload.partners} partners`} are due. Create a payout run under Payouts.`
    case 'commission_reversed':
      return payload.deducted
        ? t('Your commission{sale} was reversed: {amount} is deducted from your balance.', { sale, amount }) + why
        : t('Your commission{sale} was reversed: {amount} will not be credited.', { sale, amount }) + why
    case 'commission_refunded':
      return payload.deducted
        ? t('Your commission{sale} was reduced by {amount}, which is deducted from your balance.', { sale, amount }) +
            why
        : t('Your commission{sale} was reduced by {amount}.', { sale, amount }) + why
    case 'commission_corrected':
      return payload.deducted
        ? t('Your commission{sale} was corrected to the paid amount. {amount} was deducted from your balance.', {
            sale,
            amount,
          })
        : t('Your commission{sale} was corrected to the paid amount. {amount} was added to your balance.', {
            sale,
            amount,
          })
    case 'payout_reduced': {
      const reduced = money(payload.reduced_by_cents ?? 0, payload.currency ?? '')
      return payload.adjustment_id
        ? t('Your payout was reduced by {reduced} to {amount}, because of a deduction{sale}.', {
            reduced,
            amount,
            sale,
          }) + why
        : t('Your payout was reduced by {reduced} to {amount}, because a commission{sale} was reversed.', {
            reduced,
            amount,
            sale,
          }) + why
    }
    case 'adjustment_added':
      return t('You earned a manual commission of {amount}{sale}. It is in your balance.', { amount, sale }) + why
    case 'adjustment_deducted':
      return t('{amount} was deducted from your balance{sale}.', { amount, sale }) + why
    case 'payout_paid':
      return payload.reference
        ? t('You were paid {amount}, reference {reference}.', { amount, reference: payload.reference })
        : t('You were paid {amount}.', { amount })
    case 'payout_refused':
      return t('Your payout of {amount} was refused. The amount stays in your balance.', { amount }) + why
    case 'payout_returned':
      return t('Your payout of {amount} did not arrive. The amount is available to you again.', { amount }) + why
    case 'payout_unclaimed':
      return payload.day
        ? t(
            'Your payout of {amount} is waiting for you. Claim it through the e-mail from the payment provider before {day}.',
            {
              amount,
              day: day(new Date(payload.day)),
            },
          ) + why
        : t('Your payout of {amount} is waiting for you. Claim it through the e-mail from the payment provider.', {
            amount,
          }) + why
    case 'payout_held':
      return t('Your payout of {amount} is on hold at the payment provider.', { amount }) + why
    case 'payout_address_needed':
      return t('{amount} is due to you, but your payout address is missing. Enter it under Payouts.', { amount })
    case 'tax_form_needed':
      return t(
        '{amount} is due to you, but the program pays it only with a valid tax form. File one under Documents.',
        { amount },
      )
    case 'statement_ready':
      return t('Your statement of {month} is ready. Open it under Payouts.', {
        month: payload.month === undefined ? '' : month(new Date(payload.month)),
      })
    case 'program_message':
      return payload.text ?? ''
    case 'refund_not_converted':
      return `Manual review: ${amount} was ${payload.reason === 'chargeback' ? 'charged back' : 'refunded'}${sale} in a different currency from the sale. The commission of ${partner} doesn't change until you reject it or record a refund.`
    case 'sale_currency_corrected':
      return `The payment processor reports ${amount}${sale}, in a different currency from your server. The sale and the commission of ${partner} were corrected.`
    case 'sale_currency_differs':
      return `Manual review: the payment processor reports ${amount}${sale}, in a different currency from your server, but the commission of ${partner} is already approved. If it is wrong, reject it and add a manual commission.`
    case 'self_billing_withdrawn':
      return `${partner} withdrew the agreement to self-billing. Your next payments to them won't have documents, so ask them for invoices.`
    case 'payment_ignored':
      return `Manual review: a processor event about a customer of ${partner} was not recorded${sale}.${why} See it under Processor events.`
    case 'balance_negative':
      return `Manual review: a ${payload.adjustment_id ? 'deduction' : 'reversal'}${sale} left the balance of ${partner} at ${amount} below zero.${why}`
    case 'paid_commission_reversed':
      return `Manual review: ${amount} of a commission${sale} was reversed after ${partner} had been paid.${why}`
    case 'dispute_reinstated':
      return `Manual review: you won a dispute, and the commission${sale} of ${partner} is credited again.${why}`
    case 'processor_disconnected':
      return "Stripe was disconnected in the Stripe account itself. Payments don't earn commissions until you connect it again under Settings. Until then, the service keeps the events for up to 90 days and applies them when you reconnect."
    case 'webhook_disabled':
      return `Webhooks to ${payload.url ?? ''} have failed for ${failingDays} days, so the endpoint was disabled. Once it responds again, enable it under Webhooks and replay the missed deliveries.`
    case 'host_disabled':
      return `The DNS record that verifies ${payload.host ?? 'your domain'} has been missing for three days, so the join page no longer answers there. Create the record again, then check it under Join page.`
    case 'postback_disabled':
      return t(
        'Your postbacks to an address have failed for {count} days, so they were disabled. Once the address responds again, enable them under Postbacks and send the missed ones again.',
        { count: failingDays },
      )
    default:
      return `${kind.replaceAll('_', ' ')}: ${amount}${sale}.${why}`
  }
}
