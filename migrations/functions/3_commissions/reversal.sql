-- Reverses commissions, with everything that depends on them.

-- Returns the part of a sale that its refunds up to `last_id` (null for all) returned to the buyer, as the fraction `refunded / whole`.
-- Only the amount without tax counts if the processor reports it, because no commission is paid on tax. Other refunds count in proportion,
-- and so do all refunds of an API sale, whose base can include tax. Nothing is left of a sale if its whole amount is refunded.
create or replace function refunded_part(sale sales, last_id bigint, out refunded numeric, out whole numeric) language plpgsql stable as $$
declare
  untaxed numeric := greatest(sale.commission_base_cents + coalesce(sale.processor_fee_cents, 0), 1);
begin
  whole := sale.amount_cents * untaxed;
  refunded := case sale.refunded_cents when sale.amount_cents then whole when 0 then 0 else (
    select least(whole, sum(case when sale.amount_source <> 'api' and r.untaxed_cents is not null then r.untaxed_cents * sale.amount_cents::numeric
      else r.applied_cents * untaxed end))
    from refunds r
    where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and r.id <= coalesce(last_id, r.id)
  ) end;
end $$;

-- Notifies the partner of a reversal, and also the advertiser if the commission was paid.
create or replace function notify_reversal(commission commissions, by_cents bigint, by_cause text, of_transaction_id text)
returns void language plpgsql as $$
begin
  perform write_outbox(commission.program_id,
    case commission.reversal when 'full' then 'commission_reversed' else 'commission_refunded' end, 'partner', commission.partner_id,
    by_cause, jsonb_build_object(
      'commission_id', commission.id, 'transaction_id', of_transaction_id, 'amount_cents', by_cents,
      'currency', commission.currency, 'reason', commission.reason, 'deducted', commission.credited_at is not null));
  if commission.paid_at is not null then
    perform notify_advertiser('paid_commission_reversed', commission, by_cents, by_cause, of_transaction_id);
  end if;
end $$;

create or replace function notify_advertiser(
  of_kind text, commission commissions, by_cents bigint, by_cause text, of_transaction_id text
) returns void language plpgsql as $$
begin
  perform write_outbox(commission.program_id, of_kind, 'advertiser', commission.partner_id, by_cause, jsonb_build_object(
    'commission_id', commission.id, 'transaction_id', of_transaction_id, 'amount_cents', abs(by_cents),
    'currency', commission.currency, 'reason', commission.reason));
end $$;

-- Reverses `by_cents` more of a commission, or less if negative. Changes the commission's row, the day's totals and, if the commission is
-- credited, the balance. Sends notifications and webhooks. `commission` contains the new reversal, reason and rejected_at, but the old
-- reversed amount. `by_cause` is a unique id of the cause. `because` is the webhook's reason. `notification` is `reversal`,
-- `dispute_reinstated`, or null to notify nobody. A shadow-mode commission notifies nobody. The caller holds the locks.
create or replace function reverse_commission(
  commission commissions, by_cents bigint, by_refund_id bigint, by_cause text, because text, of_transaction_id text, notification text
) returns void language plpgsql as $$
begin
  update commissions c set reversed_cents = c.reversed_cents + by_cents, reversal = commission.reversal,
    reason = commission.reason, rejected_at = commission.rejected_at
  where c.program_id = commission.program_id and c.id = commission.id;
  if commission.is_shadow then
    notification := null;
  end if;
  if notification = 'reversal' then
    perform notify_reversal(commission, by_cents, by_cause, of_transaction_id);
  elsif notification is not null then
    perform notify_advertiser(notification, commission, by_cents, by_cause, of_transaction_id);
  end if;
  if by_cents = 0 then
    return;
  end if;
  perform count_commission_change(commission, -by_cents);
  if commission.credited_at is not null then
    perform change_balance(commission.program_id, commission.partner_id, commission.currency, -by_cents,
      case when by_cents > 0 then 'commission_reversed' else 'reversal_returned' end, by_cause, details_of(commission, of_transaction_id),
      of_commission_id => commission.id, of_refund_id => by_refund_id);
  end if;
  perform notify_commission_change(commission, by_cents, because, of_transaction_id);
end $$;

-- Details of a commission for notifications about its partner's balance.
create or replace function details_of(commission commissions, of_transaction_id text) returns jsonb language sql immutable
return jsonb_build_object('commission_id', (commission).id, 'transaction_id', of_transaction_id, 'currency', (commission).currency,
  'reason', (commission).reason);
