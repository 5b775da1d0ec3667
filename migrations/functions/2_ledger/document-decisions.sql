-- People's decisions about documents.

-- Issues the missing invoices of up to 500 paid payouts, oldest first. Returns their number.
create or replace function issue_missing_documents(of_program_id bigint) returns integer language plpgsql as $$
declare
  issued integer := 0;
  payout payouts;
  missing_ids bigint[] := array(
    select w.id from payouts w
    join partners r on r.program_id = w.program_id and r.id = w.partner_id
    join payee_details d on d.user_id = r.user_id
    where w.program_id = of_program_id and w.status = 'paid' and self_billing_terms(w.program_id, w.partner_id) is not null and not exists (
      select from documents d
      where d.program_id = w.program_id and d.payout_id = w.id and d.kind = 'invoice' and d.voided_at is null and not exists (
        select from documents c where c.program_id = d.program_id and c.corrects_id = d.id
      )
    )
    order by w.id limit 500
  );
begin
  perform lock_payout_balances(of_program_id, missing_ids);
  for payout in
    select w.* from payouts w where w.program_id = of_program_id and w.id = any (missing_ids) and w.status = 'paid' order by w.id
  loop
    issued := issued + issue_document(payout, earlier_payments(payout))::integer;
  end loop;
  return issued;
end $$;

-- Withdraws a partner's agreement to self-billing, and notifies the advertiser. The partner's next payments don't get documents. Does
-- nothing without an agreement.
create or replace function withdraw_self_billing(of_program_id bigint, of_user_id text) returns void language plpgsql as $$
declare
  of_partner_id bigint;
  agreed integer;
  last integer;
begin
  select r.id into of_partner_id from partners r where r.program_id = of_program_id and r.user_id = of_user_id for no key update;
  loop
    agreed := self_billing_terms(of_program_id, of_partner_id);
    exit when agreed is null;
    insert into accepted_terms (program_id, partner_id, version, withdrawn_at) values (of_program_id, of_partner_id, agreed, now())
    on conflict (program_id, partner_id, version) do update set withdrawn_at = now();
    last := coalesce(last, agreed);
  end loop;
  if last is not null then
    perform write_outbox(of_program_id, 'self_billing_withdrawn', 'advertiser', of_partner_id, format('terms:%s:%s:%s', of_partner_id, last,
      extract(epoch from now())), '{}');
  end if;
end $$;

-- Voids an invoice, unless a credit note has corrected it. The document keeps its number. Returns whether it is void, or null if the
-- program has no such invoice.
create or replace function void_document(of_program_id bigint, of_document_id bigint, because text) returns boolean language plpgsql as $$
declare
  document documents;
begin
  select d.* into document from documents d where d.program_id = of_program_id and d.id = of_document_id and d.kind = 'invoice';
  perform lock_payout(of_program_id, document.payout_id);
  update documents d set voided_at = now(), void_reason = because
  where d.program_id = of_program_id and d.id = document.id and d.voided_at is null and not exists (
    select from documents c where c.program_id = d.program_id and c.corrects_id = d.id
  );
  if found then
    perform write_program_audit(of_program_id, 'payout.document_voided', document.payout_id::text, jsonb_build_object(
      'document', document.series || '-' || document.number, 'reason', because));
  end if;
  return (select d.voided_at is not null from documents d where d.program_id = of_program_id and d.id = document.id);
end $$;
