-- Deletes up to `batch_rows` rows of each kind of a program's test data: clicks, leads, sales with their refunds, and
-- the processor's test events, including account events without a program. Returns the number of deleted rows and
-- whether more are left. Test data has no totals, commissions, customers or notifications, so nothing else changes. The
-- first batch (not `is_begun`) writes the amounts of test data into the audit log.
create or replace function clear_test_data(
  of_program_id bigint, batch_rows integer, is_begun boolean, out deleted bigint, out more boolean
) language plpgsql as $$
declare
  account_ids text[];
  payment_ids text[];
  sale_ids bigint[];
  until timestamptz;
  sales_deleted bigint;
  clicks_deleted bigint;
  leads_deleted bigint;
  events_deleted bigint;
begin
  select connected_accounts(p) into account_ids from programs p where p.id = of_program_id;
  if not is_begun then
    perform write_program_audit(of_program_id, 'data.test_cleared', null, jsonb_build_object(
      'clicks', (select count(*) from affiliate_click_events e where e.program_id = of_program_id and e.is_test),
      'leads', (select count(*) from affiliate_lead_events e where e.program_id = of_program_id and e.is_test),
      'sales', (select count(*) from sales s where s.program_id = of_program_id and s.is_test)));
  end if;

  -- Locks the payment first and then its sale, as reports about payments do. Otherwise, a report could find a sale that disappears.
  payment_ids := array(select s.transaction_id from sales s where s.program_id = of_program_id and s.is_test order by s.id limit batch_rows);
  perform lock_payments(account_id, array(select id from unnest(payment_ids) id where can_have_payment(account_id, id)))
  from unnest(account_ids) account_id;
  sale_ids := array(
    select s.id from sales s where s.program_id = of_program_id and s.is_test and s.transaction_id = any (payment_ids) order by s.id for update
  );
  delete from refunds r where r.program_id = of_program_id and r.sale_id = any (sale_ids);
  delete from sales s where s.program_id = of_program_id and s.is_test and s.id = any (sale_ids);
  get diagnostics sales_deleted = row_count;

  select e.click_timestamp into until from affiliate_click_events e
  where e.program_id = of_program_id and e.is_test order by e.click_timestamp offset batch_rows - 1 limit 1;
  delete from affiliate_click_events e
  where e.program_id = of_program_id and e.is_test and e.click_timestamp <= coalesce(until, 'infinity');
  get diagnostics clicks_deleted = row_count;

  select e.lead_timestamp into until from affiliate_lead_events e
  where e.program_id = of_program_id and e.is_test order by e.lead_timestamp offset batch_rows - 1 limit 1;
  delete from affiliate_lead_events e
  where e.program_id = of_program_id and e.is_test and e.lead_timestamp <= coalesce(until, 'infinity');
  get diagnostics leads_deleted = row_count;

  with gone as (
    delete from processor_events e where (e.account_id, e.event_id) in (
      select t.account_id, t.event_id from processor_events t where t.program_id = of_program_id and not t.livemode
      union all
      select t.account_id, t.event_id from processor_events t where t.account_id = any (account_ids) and t.program_id is null and not t.livemode
      limit batch_rows
    ) returning e.account_id, e.fact
  ), gone_reversals as (
    delete from processor_reversals v using gone g
    where v.account_id = g.account_id and not v.livemode
      and (v.payment_intent_id = g.fact->>'payment_intent_id' or v.charge_id = g.fact->>'charge_id')
  )
  select count(*) into events_deleted from gone;

  delete from processor_customer_metadata m where m.account_id = any (account_ids) and not m.livemode and (m.program_id = of_program_id
    or m.program_id is null and exists (select from customers c where c.program_id = of_program_id and c.click_id = m.click_id));

  deleted := sales_deleted + clicks_deleted + leads_deleted + events_deleted;
  more := batch_rows <= greatest(sales_deleted, clicks_deleted, leads_deleted, events_deleted);
end $$;
