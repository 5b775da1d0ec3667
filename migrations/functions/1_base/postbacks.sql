-- Postbacks: messages to the endpoints of partners. They use the deliveries of webhooks. Callers check `wants_webhook` first.

-- The click that brought a customer: the last or else the first click on the customer's link.
create or replace function click_of_customer(c customers, clicked_at timestamptz) returns setof click_events language sql stable rows 1
set plan_cache_mode = force_generic_plan as $$
  select e.* from click_events e
  where e.program_id = (c).program_id and not e.is_test and e.link_id = (c).link_id
    and e.click_timestamp = any (array[clicked_at, timestamptz 'epoch'
      + interval '1 millisecond' * substring((c).click_id from '^cust_([0-9]{13})_')::bigint])
  order by e.customer_id = (c).id desc, e.click_timestamp desc, e.id limit 1
$$;

-- Writes an event for the partner's endpoints. `of_cents` is negative if the commission was reversed. The message contains the customer's
-- link and its parameters only if the link belongs to the partner, because a code can give a sale to another partner. `customer_id` and
-- `sale_id` stay in the service, for erasure and the sale key.
create or replace function write_postback(
  of_program_id bigint, of_partner_id bigint, of_event text, of_customer_id bigint, of_sale_id bigint, of_cents bigint, of_currency text,
  of_status text, because text
) returns void language plpgsql as $$
begin
  if exists (
    select from webhook_endpoints e
    where e.program_id = of_program_id and e.partner_id = of_partner_id and of_event = any (e.types) and e.disabled_at is null and e.deleted_at is null
  ) then
    perform write_message(of_program_id, of_partner_id, of_event, coalesce((
      select jsonb_build_object('link_code', l.code, 'campaign', (select e.campaign from click_of_customer(c, c.last_click_at) e))
      from customers c
      join referral_links l on l.program_id = c.program_id and l.id = c.link_id and l.partner_id = of_partner_id
      where c.program_id = of_program_id and c.id = of_customer_id
    ), '{}') || jsonb_build_object('partner_id', of_partner_id, 'customer_id', of_customer_id, 'sale_id', of_sale_id,
      'commission_cents', of_cents, 'currency', of_currency, 'status', of_status, 'reason', because));
  end if;
end $$;

create or replace function write_commission_postback(of_event text, commission commissions, of_cents bigint, because text) returns void
language plpgsql as $$
begin
  perform write_postback(c.program_id, c.partner_id, of_event, c.customer_id, c.sale_id, of_cents, c.currency, c.status, because)
  from commissions c where c.program_id = commission.program_id and c.id = commission.id and not c.is_shadow;
end $$;

-- Reports to the program and the partner the reversed amount of a commission and its reason: `refund`, `chargeback`, `rejected` or `corrected`. The amount is
-- negative if a refund failed, a dispute was won, or a sale turned out to be larger.
create or replace function notify_commission_change(commission commissions, by_cents bigint, because text, of_transaction_id text)
returns void language plpgsql as $$
begin
  if by_cents <> 0 and wants_webhook(commission.program_id, 'commission.reversed') then
    perform write_webhook(c.program_id, 'commission.reversed', webhook_commission(c, of_transaction_id)
      || jsonb_build_object('reversed_by_cents', by_cents, 'is_full', c.reversal = 'full', 'reason', because))
    from commissions c where c.program_id = commission.program_id and c.id = commission.id;
  end if;
  if by_cents <> 0 and wants_webhook(commission.program_id, 'commission_reversed') then
    perform write_commission_postback('commission_reversed', commission, -by_cents, because);
  end if;
end $$;

create or replace function send_postback_of_payout() returns trigger language plpgsql as $$
begin
  if wants_webhook(new.program_id, 'payout_paid') then
    perform write_postback(new.program_id, new.partner_id, 'payout_paid', null, null, new.amount_cents, new.currency, 'paid', null);
  end if;
  return null;
end $$;
create or replace trigger payouts_postbacks after update on payouts
  for each row when (new.status = 'paid' and old.status <> 'paid') execute function send_postback_of_payout();

-- Ends a person's endpoints when somebody else takes over the partner, or when they erase their account.
create or replace function end_postbacks() returns trigger language plpgsql as $$
begin
  update webhook_endpoints e set deleted_at = now()
  where e.program_id = new.program_id and e.partner_id = new.id and e.deleted_at is null;
  return null;
end $$;
create or replace trigger partners_postbacks after update of user_id on partners
  for each row when (old.user_id is not null and new.user_id is distinct from old.user_id) execute function end_postbacks();
