-- A resolution lists the steps of the search for a sale's buyer in order, each with its result. lib/money/explanation.ts explains the
-- results.

-- Adds a step.
create or replace function with_step(resolution jsonb, step text, found text) returns jsonb language sql immutable
return coalesce(resolution, '{}') || jsonb_build_object('steps', coalesce(resolution->'steps', '[]') || jsonb_build_array(jsonb_build_array(step, found)));

-- Describes a click whose window had ended before the buyer started the purchase.
create or replace function expired_click(customer customers, at timestamptz) returns jsonb language sql stable
return jsonb_build_object('expired_click', jsonb_build_object('clicked_at', (customer).last_click_at, 'came_at', (customer).created_at, 'at', at));

-- Removes steps.
create or replace function without_steps(resolution jsonb, steps text[]) returns jsonb language sql immutable
return resolution || jsonb_build_object('steps', (
  select coalesce(jsonb_agg(s.step order by s.place), '[]') from jsonb_array_elements(resolution->'steps') with ordinality s (step, place)
  where s.step->>0 <> all (steps)
));
