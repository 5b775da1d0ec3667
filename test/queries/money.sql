-- balancesOf
select "currency", cast(sum("pending_cents") as bigint) as "pending_cents", cast(sum("balance_cents") as bigint) as "balance_cents", cast(sum("requested_cents") as bigint) as "requested_cents", cast(sum("paid_cents") as bigint) as "paid_cents", cast(greatest(sum("balance_cents") - sum("requested_cents"), 0) as bigint) as "available_cents"
from (
  select "currency", "amount_cents" - "reversed_cents" as "pending_cents", 0 as "balance_cents", 0 as "requested_cents", 0 as "paid_cents"
  from "commissions"
  where "program_id" = $1 and "partner_id" = $2 and "credited_at" is null and "rejected_at" is null and "is_shadow" = false
  union all
  select "currency", 0 as "pending_cents", "balance_cents", 0 as "requested_cents", 0 as "paid_cents"
  from "balances"
  where "program_id" = $3 and "partner_id" = $4
  union all
  select "currency", 0 as "pending_cents", 0 as "balance_cents", case when "decided_at" is null then "amount_cents" else 0 end as "requested_cents", case when "status" = $5 then "amount_cents" else 0 end as "paid_cents"
  from "payouts"
  where "program_id" = $6 and "partner_id" = $7) as "part"
group by "currency"
order by "currency";

-- listCommissions of a program
select "c"."program_id", "c"."id", "c"."kind", "c"."partner_id", "c"."customer_id", "p"."name" as "partner_name", "c"."status", "c"."currency", "c"."amount_cents", "c"."reversed_cents", "c"."reason", "c"."review_reason", "c"."held_at", "v"."decision" as "review_decision", jsonb_path_query_array(v.flags, '$[*].rule') as "flags", "s"."transaction_id", "s"."amount_cents" as "sale_cents", "c"."hold_until", "c"."credited_at", "c"."rejected_at", "c"."is_shadow", "c"."payout_id", "c"."created_at", "c"."updated_at", (
  select coalesce(json_agg(agg), '[]')
  from (
    select "r"."applied_cents" as "amount_cents", "r"."reason", "r"."reason_text", "r"."created_at" as "at", "r"."returned_at" is not null as "returned"
    from "refunds" as "r"
    where "r"."program_id" = "c"."program_id" and "r"."sale_id" = "c"."sale_id"
    order by "r"."id") as agg) as "refunds"
from "commissions" as "c"
inner join "partners" as "p" on "p"."program_id" = "c"."program_id" and "p"."id" = "c"."partner_id"
left join "sales" as "s" on "s"."program_id" = "c"."program_id" and "s"."id" = "c"."sale_id"
left join "commission_reviews" as "v" on "v"."program_id" = "c"."program_id" and "v"."commission_id" = "c"."id"
where "c"."program_id" = $1 and "c"."id" < $2
order by "c"."id" desc
limit $3;

-- listCommissions of a partner
-- 11 lines as in listCommissions of a program
where "p"."user_id" = $1 and "c"."is_shadow" = false and "c"."status" = $2
order by "c"."id" desc
limit $3;

-- commissionTotals
select currency as "currency", count(*) as "rows", coalesce(sum(amount_cents - reversed_cents), 0)::bigint as "cents"
from (
  -- 11 lines as in listCommissions of a program
  where "c"."program_id" = $1 and "c"."status" = $2) as "row"
group by 1
order by 1;

-- earningsByDay
select cast("day"."date" as text) as "date", (
  select g.currency
  from partners p join programs g on g.id = p.program_id
  where p.user_id = $1
  order by p.id desc
  limit 1) as "currency", cast(coalesce(sum("c"."amount_cents" - "c"."reversed_cents"), 0) as bigint) as "amount_cents"
from (
  select utc_day(now()) - n as date
  from generate_series(0, $2::int) n) as "day"
left join "commissions" as "c" on utc_day("c"."created_at") = "day"."date" and "c"."currency" = (
  select g.currency
  from partners p join programs g on g.id = p.program_id
  where p.user_id = $3
  order by p.id desc
  limit 1) and "c"."is_shadow" = false and "c"."created_at" >= now() - make_interval(days => $4) and ("c"."program_id", "c"."partner_id") in (
  select "p"."program_id", "p"."id"
  from "partners" as "p"
  where "p"."user_id" = $5)
group by "day"."date"
order by "day"."date";

-- listPayouts of a program
select "w"."program_id", "g"."name" as "program_name", "w"."id", "w"."partner_id", "p"."name" as "partner_name", coalesce("p"."payout_email", "p"."email") as "payout_email", "p"."payout_waits_until", "w"."payout_address", "w"."currency", "w"."requested_cents", "w"."amount_cents", "w"."status", "w"."reason", "w"."payout_run_id", "w"."reference", "w"."paid_on", "w"."created_at", "w"."updated_at", "w"."decided_at", "i"."outcome" as "provider_outcome", "i"."provider_reason", "i"."claim_until"
from "payouts" as "w"
inner join "partners" as "p" on "p"."program_id" = "w"."program_id" and "p"."id" = "w"."partner_id"
inner join "programs" as "g" on "g"."id" = "w"."program_id"
left join "payout_items" as "i" on "i"."program_id" = "w"."program_id" and "i"."payout_id" = "w"."id"
where "w"."program_id" = $1 and "w"."status" = $2 and "w"."id" < $3
order by "w"."id" desc
limit $4;

-- listPayoutLines of a run
select "w"."program_id", "g"."name" as "program_name", "w"."id", "w"."partner_id", "p"."name" as "partner_name", coalesce("p"."payout_email", "p"."email") as "payout_email", "p"."payout_waits_until", "w"."payout_address", "w"."currency", "w"."requested_cents", "w"."amount_cents", "w"."status", "w"."reason", "w"."payout_run_id", "w"."reference", "w"."paid_on", "w"."created_at", "w"."updated_at", "w"."decided_at", "i"."outcome" as "provider_outcome", "i"."provider_reason", "i"."claim_until"
from "payouts" as "w"
inner join "partners" as "p" on "p"."program_id" = "w"."program_id" and "p"."id" = "w"."partner_id"
inner join "programs" as "g" on "g"."id" = "w"."program_id"
left join "payout_items" as "i" on "i"."program_id" = "w"."program_id" and "i"."payout_id" = "w"."id"
where "w"."program_id" = $1 and "w"."payout_run_id" = $2
order by "w"."id" desc
limit $3;
select "l"."id", "l"."program_id", "l"."payout_id", "l"."payout_run_id", "l"."partner_id", "l"."partner_name", "l"."currency", "e"."cause", "e"."commission_id", (
  select s.transaction_id
  from sales s
  where s.program_id = e.program_id and s.id = (
    select c.sale_id
    from commissions c
    where c.program_id = e.program_id and c.id = e.commission_id
  )
) as "transaction_id", "e"."refund_id", "e"."adjustment_id", (
  select a.note
  from adjustments a
  where a.program_id = e.program_id and a.id = e.adjustment_id
) as "note", "l"."amount_cents", "e"."amount_cents" as "entry_cents", "l"."is_returned", "e"."created_at", case when "l"."is_returned" = $1 then "r"."reference" else "l"."reference" end as "reference", "r"."created_at" as "returned_at"
from (
  select "l".*, "w"."payout_run_id", "w"."reference", "p"."name" as "partner_name"
  from "payout_lines" as "l"
  inner join "payouts" as "w" on "w"."program_id" = "l"."program_id" and "w"."id" = "l"."payout_id"
  inner join "partners" as "p" on "p"."program_id" = "w"."program_id" and "p"."id" = "w"."partner_id"
  where "l"."program_id" = $2 and "w"."payout_run_id" = $3 and "l"."id" < $4
  order by "l"."id" desc
  limit $5) as "l"
inner join lateral (
  select "n".*
  from "balance_entries" as "n"
  where "n"."program_id" = "l"."program_id" and "n"."partner_id" = "l"."partner_id" and "n"."currency" = "l"."currency" and "n"."entry_number" = "l"."entry_number"
  limit $6) as "e" on true
left join lateral (
  select "n"."reference", "n"."created_at"
  from "balance_entries" as "n"
  where "n"."program_id" = "l"."program_id" and "n"."cause" = $7 and "n"."commission_id" is null and "n"."payout_id" = "l"."payout_id" and coalesce("n"."correction_number", 1) = "l"."payment_number"
  limit $8) as "r" on "l"."is_returned" = $9
where "l"."id" < $10
order by "l"."id" desc
limit $11;

-- listPayoutLines of a partner
select "w"."program_id", "g"."name" as "program_name", "w"."id", "w"."partner_id", "p"."name" as "partner_name", coalesce("p"."payout_email", "p"."email") as "payout_email", "p"."payout_waits_until", "w"."payout_address", "w"."currency", "w"."requested_cents", "w"."amount_cents", "w"."status", "w"."reason", "w"."payout_run_id", "w"."reference", "w"."paid_on", "w"."created_at", "w"."updated_at", "w"."decided_at", "i"."outcome" as "provider_outcome", "i"."provider_reason", "i"."claim_until"
from "payouts" as "w"
inner join "partners" as "p" on "p"."program_id" = "w"."program_id" and "p"."id" = "w"."partner_id"
inner join "programs" as "g" on "g"."id" = "w"."program_id"
left join "payout_items" as "i" on "i"."program_id" = "w"."program_id" and "i"."payout_id" = "w"."id"
where "p"."user_id" = $1 and "w"."id" = $2
-- 20 lines as in listPayoutLines of a run
  where "p"."user_id" = $2 and "l"."payout_id" = $3
  -- 12 lines as in listPayoutLines of a run
order by "l"."id" desc
limit $9;

-- listStatementEntries
select "p"."id"
from "partners" as "p"
where "p"."program_id" = $1 and "p"."id" = $2;
select "e"."entry_number" as "id", "e"."program_id", "e"."created_at", "e"."cause", "e"."currency", "e"."amount_cents", "e"."balance_after_cents", "e"."commission_id", (
  -- 7 lines as in listPayoutLines of a run
) as "transaction_id", "e"."refund_id", "e"."payout_id", "e"."reference", "e"."adjustment_id", (
  select a.note
  from adjustments a
  where a.program_id = e.program_id and a.id = e.adjustment_id
) as "note"
from "partners" as "p"
inner join "balance_entries" as "e" on "e"."program_id" = "p"."program_id" and "e"."partner_id" = "p"."id"
where "p"."program_id" = $1 and "p"."id" = $2 and "e"."currency" = coalesce($3, (
    select o.currency
    from programs o
    where o.id = p.program_id)) and "e"."created_at" >= $4 and "e"."created_at" < $5 and "e"."entry_number" < $6
order by "e"."entry_number" desc
limit $7;

-- readStatementTotals
select "p"."id" as "partner_id", "p"."name" as "partner_name", "g"."name" as "program_name", coalesce($1, (
    select o.currency
    from programs o
    where o.id = p.program_id)) as "currency", coalesce((
    select "e"."balance_after_cents"
    from "balance_entries" as "e"
    where "e"."program_id" = "p"."program_id" and "e"."partner_id" = "p"."id" and "e"."currency" = coalesce($2, (
        select o.currency
        from programs o
        where o.id = p.program_id)) and "e"."created_at" < $3
    order by "e"."entry_number" desc
    limit $4), 0)::bigint as "opening_cents", coalesce((
    select cast(sum("e"."amount_cents") as bigint) as "cents"
    from "balance_entries" as "e"
    where "e"."program_id" = "p"."program_id" and "e"."partner_id" = "p"."id" and "e"."currency" = coalesce($5, (
        select o.currency
        from programs o
        where o.id = p.program_id)) and "e"."created_at" >= $6 and "e"."created_at" < $7 and "e"."amount_cents" > $8), 0)::bigint as "credited_cents", coalesce((
    select cast(sum("e"."amount_cents") as bigint) as "cents"
    from "balance_entries" as "e"
    where "e"."program_id" = "p"."program_id" and "e"."partner_id" = "p"."id" and "e"."currency" = coalesce($9, (
        select o.currency
        from programs o
        where o.id = p.program_id)) and "e"."created_at" >= $10 and "e"."created_at" < $11 and "e"."amount_cents" < $12), 0)::bigint as "deducted_cents", coalesce((
    select "e"."balance_after_cents"
    from "balance_entries" as "e"
    where "e"."program_id" = "p"."program_id" and "e"."partner_id" = "p"."id" and "e"."currency" = coalesce($13, (
        select o.currency
        from programs o
        where o.id = p.program_id)) and "e"."created_at" < $14
    order by "e"."entry_number" desc
    limit $15), 0)::bigint as "closing_cents", array(
  select b.currency::text
  from balances b
  where b.program_id = p.program_id and b.partner_id = p.id
  order by b.currency
      ) as "currencies"
from "partners" as "p"
inner join "programs" as "g" on "g"."id" = "p"."program_id"
where "p"."program_id" = $16 and "p"."user_id" = $17;

-- listDocuments of a program
select "d"."program_id", "g"."name" as "program_name", "d"."id", "d"."series", "d"."number", "d"."kind", "d"."payout_id", "d"."partner_id", "d"."currency", "d"."amount_cents", "d"."vat_bp", "d"."issued_at", "d"."voided_at", "d"."void_reason", "c"."number" as "credit_note", d.payee->>'legal_name' as "payee_name"
from "documents" as "d"
inner join "programs" as "g" on "g"."id" = "d"."program_id"
left join "documents" as "c" on "c"."program_id" = "d"."program_id" and "c"."corrects_id" = "d"."id"
where "d"."program_id" = $1 and (d.payee->>'legal_name' ilike $2 or d.series || '-' || d.number ilike $3) and "d"."id" < $4
order by "d"."id" desc
limit $5;

-- listDocuments of a partner
select "d"."program_id", "g"."name" as "program_name", "d"."id", "d"."series", "d"."number", "d"."kind", "d"."payout_id", "d"."partner_id", "d"."currency", "d"."amount_cents", "d"."vat_bp", "d"."issued_at", "d"."voided_at", "d"."void_reason", "c"."number" as "credit_note", d.payee->>'legal_name' as "payee_name"
from "documents" as "d"
inner join "programs" as "g" on "g"."id" = "d"."program_id"
left join "documents" as "c" on "c"."program_id" = "d"."program_id" and "c"."corrects_id" = "d"."id"
inner join "partners" as "p" on "p"."program_id" = "d"."program_id" and "p"."id" = "d"."partner_id"
where "p"."user_id" = $1
order by "d"."id" desc
limit $2;

-- listYearlyPayments
select "p"."id" as "partner_id", "p"."name" as "partner_name", "d"."legal_name", "d"."country", "d"."vat_id", "f"."kind" as "tax_form", "f"."tax_id_hint", "f"."expires_on", "w"."currency", cast(count(*) as integer) as "payments", cast(sum("w"."amount_cents") as bigint) as "paid_cents"
from "payouts" as "w"
inner join "partners" as "p" on "p"."program_id" = "w"."program_id" and "p"."id" = "w"."partner_id"
left join "payee_details" as "d" on "d"."user_id" = "p"."user_id"
left join "tax_forms" as "f" on "f"."user_id" = "p"."user_id"
where "w"."program_id" = $1 and "w"."status" = $2 and "w"."paid_on" >= make_date($3::integer, 1, 1) and "w"."paid_on" < make_date($4::integer + 1, 1, 1)
group by "p"."id", "p"."name", "d"."user_id", "f"."user_id", "w"."currency"
order by "p"."id", "w"."currency";

-- listPayouts of a partner
select "w"."program_id", "g"."name" as "program_name", "w"."id", "w"."partner_id", "p"."name" as "partner_name", coalesce("p"."payout_email", "p"."email") as "payout_email", "p"."payout_waits_until", "w"."payout_address", "w"."currency", "w"."requested_cents", "w"."amount_cents", "w"."status", "w"."reason", "w"."payout_run_id", "w"."reference", "w"."paid_on", "w"."created_at", "w"."updated_at", "w"."decided_at", "i"."outcome" as "provider_outcome", "i"."provider_reason", "i"."claim_until"
from "payouts" as "w"
inner join "partners" as "p" on "p"."program_id" = "w"."program_id" and "p"."id" = "w"."partner_id"
inner join "programs" as "g" on "g"."id" = "w"."program_id"
left join "payout_items" as "i" on "i"."program_id" = "w"."program_id" and "i"."payout_id" = "w"."id"
where "p"."user_id" = $1
order by "w"."id" desc
limit $2;
