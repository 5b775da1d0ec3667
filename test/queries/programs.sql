-- createProgram
insert into "programs" ("workspace_id", "currency", "commission_bp", "lead_commission_cents", "cookie_window_days", "hold_days", "commission_duration_months", "lead_auth_policy", "attribution_model", "attribute_known_customers", "name", "domain")
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
returning "id";

-- readProgram
select "name", "domain", "currency", "commission_bp", "lead_commission_cents", "cookie_window_days", "hold_days", "commission_duration_months", "lead_auth_policy", "attribution_model", "attribute_known_customers", "processor_account_id"
from "programs"
where "id" = $1;

-- readProgress
select "id"
from "partners"
where "program_id" = $1
limit $2;
select "click_timestamp" as "at", "page_url"
from "affiliate_click_events"
where "program_id" = $1 and not "is_test"
order by "click_timestamp" desc, "id" desc
limit $2;
