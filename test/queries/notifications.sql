-- writeNotifications
select *
from write_notifications($1, $2, $3);

-- listNotifications of a program
select "n"."id", "n"."program_id", "g"."name" as "program_name", "p"."name" as "partner_name", "n"."kind", "n"."payload", "n"."created_at", "r"."user_id" is not null as "read"
from "notifications" as "n"
inner join "programs" as "g" on "g"."id" = "n"."program_id"
left join "partners" as "p" on "p"."program_id" = "n"."program_id" and "p"."id" = "n"."partner_id"
left join "notification_reads" as "r" on "r"."program_id" = "n"."program_id" and "r"."notification_id" = "n"."id" and "r"."user_id" = $1
where "n"."program_id" = $2 and "n"."audience" = 'advertiser'
order by "n"."created_at" desc, "n"."id" desc
limit $3;

-- listNotifications of a partner
select "n"."id", "n"."program_id", "g"."name" as "program_name", "p"."name" as "partner_name", "n"."kind", "n"."payload", "n"."created_at", "r"."user_id" is not null as "read"
from "notifications" as "n"
inner join "programs" as "g" on "g"."id" = "n"."program_id"
left join "partners" as "p" on "p"."program_id" = "n"."program_id" and "p"."id" = "n"."partner_id"
left join "notification_reads" as "r" on "r"."program_id" = "n"."program_id" and "r"."notification_id" = "n"."id" and "r"."user_id" = $1
where "n"."partner_id" in (
  select "id"
  from "partners"
  where "user_id" = $2) and "n"."audience" = 'partner' and ("n"."created_at", "n"."id") < ((
    select "n"."created_at"
    from "notifications" as "n"
    where "n"."partner_id" in (
      select "id"
      from "partners"
      where "user_id" = $3) and "n"."audience" = 'partner' and "n"."id" = $4), $5)
order by "n"."created_at" desc, "n"."id" desc
limit $6;

-- markNotificationsRead
insert into "notification_reads" ("program_id", "notification_id", "user_id")
select "n"."program_id", "n"."id", $1 as "user_id"
from "notifications" as "n"
where "n"."program_id" = $2 and "n"."audience" = 'advertiser'
on conflict do nothing;

-- outboxStatement
select "o"."id", "o"."kind", "o"."audience", "o"."partner_id", "p"."name" as "partner_name", "o"."created_at", "o"."sent_at", "o"."delivered_at"
from "outbox" as "o"
left join "partners" as "p" on "p"."program_id" = "o"."program_id" and "p"."id" = "o"."partner_id"
where "o"."program_id" = $1 and "o"."id" < $2
order by "o"."id" desc
limit $3;
