-- Self-billing documents. A document is issued in the transaction of its payment, under the lock of the partner's balance.

-- The member states of the European Union. lib/money/document-parties.ts has the formats of their VAT numbers.
create or replace function is_in_eu(country text) returns boolean language sql immutable
return country = any (
  '{AT,BE,BG,CY,CZ,DE,DK,EE,ES,FI,FR,GR,HR,HU,IE,IT,LT,LU,LV,MT,NL,PL,PT,RO,SE,SI,SK}'
);

-- The newest accepted terms of a partner that contain the agreement to self-billing. Null if they withdrew it.
create or replace function self_billing_terms(of_program_id bigint, of_partner_id bigint) returns integer language sql stable
return (
  select max(t.version) from program_terms t
  left join accepted_terms a on a.program_id = t.program_id and a.partner_id = of_partner_id and a.version = t.version
  where t.program_id = of_program_id and t.self_billing and a.withdrawn_at is null and (
    a.version is not null or exists (
      select from applications a
      where a.program_id = t.program_id and a.partner_id = of_partner_id and a.terms_version = t.version and a.status = 'approved'
    )
  )
);

-- Takes the next number of a series. Other transactions wait for this one, so the number is used again after a rollback.
create or replace function next_document_number(of_program_id bigint, of_series text) returns bigint language sql as $$
  insert into document_series as s (program_id, series, last_number) values (of_program_id, of_series, 1)
  on conflict (program_id, series) do update set last_number = s.last_number + 1
  returning s.last_number
$$;

-- The lines of a payment: its entries, or one line for more than 100 entries. The payout's page lists all of them.
create or replace function document_lines(payout payouts, of_payment_number integer) returns jsonb language sql stable
return (
  select case when count(*) <= 100 then jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
    'cause', l.cause, 'commission_id', l.commission_id, 'adjustment_id', l.adjustment_id,
    'posted_on', (l.posted_at at time zone 'UTC')::date, 'amount_cents', l.amount_cents)) order by l.entry_number)
  else jsonb_build_array(jsonb_build_object('cause', 'entries', 'entries', count(*), 'amount_cents', sum(l.amount_cents))) end
  from payout_line_entries l
  where l.program_id = (payout).program_id and l.payout_id = (payout).id and l.payment_number = of_payment_number
);

-- Issues the invoice of a paid payout, if the program and the partner have entered their details and the partner agreed to self-billing.
-- Returns whether it did. The caller has locked the balance.
create or replace function issue_document(payout payouts, of_payment_number integer) returns boolean language plpgsql as $$
declare
  of_terms integer;
  issuer program_billing;
  payee payee_details;
  of_number bigint;
begin
  select b.* into issuer from program_billing b where b.program_id = payout.program_id;
  if not found then
    return false;
  end if;
  of_terms := self_billing_terms(payout.program_id, payout.partner_id);
  select d.* into payee from partners r join payee_details d on d.user_id = r.user_id
  where r.program_id = payout.program_id and r.id = payout.partner_id;
  if of_terms is null or payee.user_id is null or exists (
    select from documents d
    where d.program_id = payout.program_id and d.payout_id = payout.id and d.payment_number = of_payment_number and d.voided_at is null
  ) then
    return false;
  end if;
  of_number := next_document_number(payout.program_id, issuer.series);
  insert into documents (program_id, series, number, kind, payout_id, payment_number, partner_id, currency, amount_cents, paid_on, reference,
    terms_version, issuer, payee, lines, is_reverse_charge, vat_bp)
  values (payout.program_id, issuer.series, of_number, 'invoice', payout.id, of_payment_number,
    payout.partner_id, payout.currency, payout.amount_cents, payout.paid_on, payout.reference, of_terms,
    to_jsonb(issuer) - '{program_id,series,vat_bp}'::text[], to_jsonb(payee) - 'user_id', document_lines(payout, of_payment_number),
    coalesce(num_nonnulls(issuer.vat_id, payee.vat_id) = 2 and is_in_eu(issuer.country) and is_in_eu(payee.country)
      and issuer.country <> payee.country, false),
    case when issuer.country = payee.country and payee.vat_id is not null then issuer.vat_bp end);
  return true;
end $$;

-- Issues the credit note of a payment that came back, with the facts of its invoice. The caller has locked the balance.
create or replace function credit_document(payout payouts, of_payment_number integer) returns void language plpgsql as $$
declare
  invoice documents;
  of_number bigint;
begin
  select d.* into invoice from documents d
  where d.program_id = payout.program_id and d.payout_id = payout.id and d.payment_number = of_payment_number and d.kind = 'invoice'
    and d.voided_at is null;
  if not found then
    return;
  end if;
  of_number := next_document_number(invoice.program_id, invoice.series);
  insert into documents (program_id, series, number, kind, payout_id, payment_number, partner_id, currency, amount_cents, paid_on, reference,
    terms_version, issuer, payee, lines, is_reverse_charge, vat_bp, corrects_id)
  select d.program_id, d.series, of_number, 'credit_note', d.payout_id, d.payment_number, d.partner_id, d.currency, d.amount_cents, d.paid_on,
    d.reference, d.terms_version, d.issuer, d.payee, d.lines, d.is_reverse_charge, d.vat_bp, d.id
  from documents d where d.program_id = invoice.program_id and d.id = invoice.id;
end $$;

-- Keeps documents unchanged, except that one can become void, and that an erased partner's details are deleted after their retention
-- period.
create or replace function keep_document() returns trigger language plpgsql as $$
declare
  changeable text[] := '{voided_at,void_reason}';
begin
  if tg_op = 'UPDATE' and new.payee = '{}' and old.issued_at < now() - money_kept() then
    changeable := changeable || 'payee'::text;
  end if;
  if tg_op = 'DELETE' or to_jsonb(new) - changeable <> to_jsonb(old) - changeable or old.voided_at <> new.voided_at
    or old.voided_at is not null and new.voided_at is null then
    raise exception 'documents stay as they were issued' using errcode = 'restrict_violation';
  end if;
  return new;
end $$;
create or replace trigger documents_stay before update or delete on documents for each row execute function keep_document();
