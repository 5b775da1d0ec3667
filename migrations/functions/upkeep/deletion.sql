-- Ends the partnerships of these partners permanently. The caller has locked their rows and found nothing unsettled under
-- that lock. A concurrent sale waits for the lock, and then sees that the partnership has ended.
create or replace function close_partners(program_ids bigint[], partner_ids bigint[], by_whom text) returns void language plpgsql as $$
begin
  update partners r set closed_at = now(), is_active = false, ended_at = coalesce(r.ended_at, now()),
    ended_by = coalesce(r.ended_by, by_whom)
  where r.program_id = any (program_ids) and r.id = any (partner_ids);
  update referral_links l set is_active = false
  where l.program_id = any (program_ids) and l.partner_id = any (partner_ids) and l.is_active;
  update partner_codes k set revoked_at = now()
  where k.program_id = any (program_ids) and k.partner_id = any (partner_ids) and k.revoked_at is null;
  update partner_invitations i set revoked_at = now()
  where i.program_id = any (program_ids) and i.partner_id = any (partner_ids)
    and i.accepted_at is null and i.declined_at is null and i.revoked_at is null;
end $$;

-- The first six unsettled partners of these programs, or of this person, with the state of their money.
create or replace function first_unsettled(program_ids bigint[], of_user_id text) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object('partner', f.partner, 'program', f.program, 'state', f.state)), '[]') from (
    select r.name as partner, p.name as program, u.unsettled as state
    from unsettled_partners u
    join partners r on r.program_id = u.program_id and r.id = u.partner_id
    join programs p on p.id = u.program_id
    where u.program_id = any (program_ids) or u.user_id = of_user_id order by u.program_id, u.partner_id limit 6
  ) f
$$;

-- Deletes a workspace with its programs. Nobody can reach them anymore, but paid amounts stay in the books. If
-- partners have unsettled money, changes nothing and returns these partners and amounts. `account_ids` are the
-- Stripe accounts that no other program uses. Only `deleteWorkspace` in lib/programs/workspaces.ts calls it.
create or replace function close_workspace(of_workspace_id text, out unsettled jsonb, out account_ids text[]) language plpgsql as $$
declare
  program_ids bigint[];
  partner_ids bigint[];
begin
  perform from workspaces w where w.id = of_workspace_id for update;
  program_ids := array(select p.id from programs p where p.workspace_id = of_workspace_id order by p.id for update);
  partner_ids := array(
    select r.id from partners r where r.program_id = any (program_ids) order by r.program_id, r.id for update
  );
  unsettled := first_unsettled(program_ids, null);
  if unsettled <> '[]' then
    return;
  end if;
  account_ids := array(
    select distinct p.processor_account_id from programs p
    where p.id = any (program_ids) and p.processor_account_id is not null and not exists (
      select from programs other where other.processor_account_id = p.processor_account_id and other.id <> all (program_ids)
    )
  );
  perform close_partners(program_ids, partner_ids, 'program');
  update api_keys k set revoked_at = now() where k.program_id = any (program_ids) and k.revoked_at is null;
  update workspace_invitations i set revoked_at = now()
  where i.workspace_id = of_workspace_id and i.accepted_at is null and i.revoked_at is null;
  update webhook_endpoints e set deleted_at = now() where e.program_id = any (program_ids) and e.deleted_at is null;
  update join_pages j set is_open = false where j.program_id = any (program_ids) and j.is_open;
  delete from program_hosts h where h.program_id = any (program_ids);
  delete from applications a where a.program_id = any (program_ids) and a.status <> 'approved';
  delete from processor_connect_states s where s.program_id = any (program_ids);
  delete from own_account_codes c where c.program_id = any (program_ids);
  delete from processor_customer_metadata m where m.account_id = any (account_ids)
    or m.account_id in (select c.account_id from processor_connections c where c.program_id = any (program_ids));
  delete from processor_connections c where c.program_id = any (program_ids);
  update payout_connections c set keys = null where c.program_id = any (program_ids) and c.keys is not null;
  delete from refused_calls r where r.program_id = any (program_ids);
  -- An export locks its program first, so none is running.
  delete from export_rows x where x.program_id = any (program_ids);
  delete from program_members o where o.workspace_id = of_workspace_id;
  update workspace_members m set removed_at = now() where m.workspace_id = of_workspace_id and m.removed_at is null;
  update programs p set deleted_at = now(), processor_account_id = null, processor_former_account_id = null, processor_connected_at = null
  where p.id = any (program_ids);
  update workspaces w set deleted_at = now() where w.id = of_workspace_id;
end $$;

-- Erases the data about partners in imports: in the rows of the partners and of their links, codes, customers, balances and commissions. If
-- the source has no ids, the ids of partners and balances contain the partners' addresses.
create or replace function erase_imported_partners(program_ids bigint[], partner_ids bigint[]) returns void language sql as $$
  update import_rows i set fields = i.fields - array['name', 'email', 'payout_email', 'partner'],
    source_id = case when i.kind in ('partner', 'balance') then 'erased' else i.source_id end,
    replaced = case when i.kind <> 'partner' then i.replaced end
  where i.program_id = any (program_ids) and (i.kind = 'partner' and i.target_id = any (partner_ids) or i.partner_id = any (partner_ids)
    or (i.program_id, i.import_id, i.partner_row_id) in (
      select p.program_id, p.import_id, p.id from import_rows p
      where p.program_id = any (program_ids) and p.kind = 'partner' and p.target_id = any (partner_ids)
    ));
  update adjustments a set external_id = null
  where a.program_id = any (program_ids) and a.partner_id = any (partner_ids) and a.import_id is not null;
$$;

-- Erases other texts about partners: the views with which members search for their addresses, messages to them, and the addresses of their
-- postbacks. The query of a view is URL-encoded.
create or replace function erase_texts_about_partners(program_ids bigint[], partner_ids bigint[], account_address text) returns void language sql as $$
  delete from saved_views v
  using (
    select r.program_id, unnest(array[r.email, r.payout_email, account_address]) as address from partners r
    where r.program_id = any (program_ids) and r.id = any (partner_ids)
  ) a
  where v.program_id = a.program_id
    and strpos(replace(replace(lower(concat(v.name, ' ', v.query)), '%40', '@'), '%2b', '+'), lower(a.address)) > 0;
  update notifications n set payload = n.payload - 'text'
  where n.program_id = any (program_ids) and n.partner_id = any (partner_ids) and n.kind = 'program_message';
  update outbox o set payload = o.payload - 'text'
  where o.program_id = any (program_ids) and o.partner_id = any (partner_ids) and o.kind = 'program_message';
  update webhook_endpoints e set url = '', description = '', deleted_at = coalesce(e.deleted_at, now())
  where e.program_id = any (program_ids) and e.partner_id = any (partner_ids);
$$;

-- Stores the encrypted identities of people in the books. Throws if one is missing, because a payment was made after `payees` was read.
create or replace function keep_payees(of_user_id text, payees jsonb) returns void language plpgsql as $$
begin
  insert into erased_payees (program_id, partner_id, identity)
  select r.program_id, r.id, p.identity::bytea
  from jsonb_to_recordset(payees) p (program_id bigint, partner_id bigint, identity text)
  join partners r on r.program_id = p.program_id and r.id = p.partner_id and r.user_id = of_user_id
  on conflict do nothing;
  if exists (
    select from partners r join balance_entries e on e.program_id = r.program_id and e.partner_id = r.id
    where r.user_id = of_user_id and (e.cause = 'payout_paid' or e.balance_after_cents < 0)
      and not exists (select from erased_payees k where k.program_id = r.program_id and k.partner_id = r.id)
  ) then
    raise exception 'a paid person has no identity' using errcode = 'check_violation', constraint = 'erased_payees_complete';
  end if;
end $$;

-- Deletes the counters of a person's attempts and mails, whose keys contain one of these words: their id, addresses or mailboxes.
create or replace function erase_counters(of_words text[]) returns void language plpgsql as $$
begin
  delete from sign_in_attempts a where a.key in (
    select s.key from sign_in_attempts s where string_to_array(s.key, ' ') && of_words order by s.key for update
  );
  delete from mail_counts m where m.counted in (
    select s.counted from mail_counts s where string_to_array(s.counted, ' ') && of_words order by s.counted, s.day for update
  );
end $$;

-- Erases a person's account: their sessions, sign-in methods and two-factor codes, their name and addresses in all programs, and the
-- invitations to them. Amounts stay, but without the name. If the person has unsettled money, or a workspace would lose its last owner,
-- changes nothing and returns these programs and workspaces. `payees` are the encrypted identities of people in the books, `[{program_id,
-- partner_id, identity}]`. A debt stays in the books. Only `eraseAccount` in lib/access/account.ts calls it.
create or replace function erase_user(of_user_id text, payees jsonb, out unsettled jsonb, out last_owner_of text[]) language plpgsql as $$
declare
  address text := (select u.email from users u where u.id = of_user_id);
  -- An address belongs to the person only if it is verified.
  verified_address text := (select u.email from users u where u.id = of_user_id and u.email_verified);
  program_ids bigint[];
  partner_ids bigint[];
begin
  perform from workspaces w where w.id in (select m.workspace_id from active_members m where m.user_id = of_user_id)
  order by w.id for update;
  -- Erasing an endpoint updates its program. All calls lock programs before partners.
  perform from programs p where p.id in (select r.program_id from partners r where r.user_id = of_user_id) order by p.id for no key update;
  perform from users u where u.id = of_user_id for update;
  program_ids := array(select r.program_id from partners r where r.user_id = of_user_id);
  perform lock_exports(program_ids);
  partner_ids := array(select r.id from partners r where r.user_id = of_user_id order by r.program_id, r.id for update);
  unsettled := first_unsettled(null, of_user_id);
  last_owner_of := array(
    select w.name from active_members m join workspaces w on w.id = m.workspace_id
    where m.user_id = of_user_id and m.role = 'owner' and not exists (
      select from active_members other
      where other.workspace_id = m.workspace_id and other.user_id <> of_user_id and other.role = 'owner'
    )
    order by w.name limit 6
  );
  if unsettled <> '[]' or cardinality(last_owner_of) > 0 then
    return;
  end if;
  perform close_partners(program_ids, partner_ids, 'partner');
  perform write_program_audit(r.program_id, 'partner.erased', r.id::text, (
    select jsonb_object_agg('owes ' || b.currency, -b.balance_cents) from balances b
    where b.program_id = r.program_id and b.partner_id = r.id and b.balance_cents < 0
  ))
  from partners r where r.user_id = of_user_id;
  perform keep_payees(of_user_id, payees);
  delete from partner_invitations i
  where i.email = verified_address or i.program_id = any (program_ids) and i.partner_id = any (partner_ids);
  delete from workspace_invitations i where i.email = verified_address;
  -- The acceptance of a program's terms is kept without the person's data.
  delete from applications a where a.status <> 'approved' and (a.user_id = of_user_id or a.email = verified_address);
  update applications a set user_id = null, name = 'Erased partner', email = null, answers = '[]', note = null, token_hash = null
  where a.user_id = of_user_id or a.email = verified_address or a.program_id = any (program_ids) and a.partner_id = any (partner_ids);
  update partner_invitations i set revoked_at = now()
  where i.invited_by = of_user_id and i.accepted_at is null and i.declined_at is null and i.revoked_at is null;
  update workspace_invitations i set revoked_at = now()
  where i.invited_by = of_user_id and i.accepted_at is null and i.revoked_at is null;
  update payouts w set payout_address = null
  where w.program_id = any (program_ids) and w.partner_id = any (partner_ids) and w.payout_address is not null;
  -- Their payments have ended, so no call to a provider needs the recipients.
  with erased as (
    update payout_items i set recipient = 'erased', provider_reason = null
    from payouts w
    where w.program_id = any (program_ids) and w.partner_id = any (partner_ids) and i.program_id = w.program_id and i.payout_id = w.id
    returning i.program_id, i.batch_id
  )
  update payout_batches b set problem = null from erased e where b.program_id = e.program_id and b.id = e.batch_id;
  delete from payout_recipients r where r.program_id = any (program_ids) and r.partner_id = any (partner_ids);
  -- The stored responses to API calls about the person.
  delete from idempotency_keys k
  where k.program_id = any (program_ids) and k.answer ? 'email' and (k.answer ->> 'id')::bigint = any (partner_ids)
    or k.answer ->> 'email' = verified_address;
  perform erase_imported_partners(program_ids, partner_ids);
  perform erase_texts_about_partners(program_ids, partner_ids, address);
  delete from export_rows x where x.program_id = any (program_ids);
  update partners r set user_id = null, name = 'Erased partner', email = null, payout_email = null, note = null, external_id = null,
    metadata = '{}'
  where r.user_id = of_user_id;
  delete from program_members o where o.user_id = of_user_id;
  update workspace_members m set removed_at = now() where m.user_id = of_user_id and m.removed_at is null;
  delete from verifications v where v.value = of_user_id;
  delete from refused_addresses a where a.email = address;
  perform erase_counters(array[of_user_id, verified_address, mailbox_of(verified_address)]);
  delete from users u where u.id = of_user_id;
end $$;

-- Revokes keys that were created while their workspace was being deleted.
create or replace function revoke_key_of_deleted_program() returns trigger language plpgsql as $$
begin
  perform from programs p where p.id = new.program_id and p.deleted_at is null for key share;
  if not found then
    new.revoked_at := now();
  end if;
  return new;
end $$;
create or replace trigger api_keys_of_deleted before insert on api_keys for each row execute function revoke_key_of_deleted_program();
