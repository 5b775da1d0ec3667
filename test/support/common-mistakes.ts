import type { FunctionMistakes } from './planted-functions.ts'

/** Mistakes that more than one kind of history finds. */
export const roundedDown: FunctionMistakes = {
  commission_of: `intact(); if base_cents * commission_bp % 10000 >= 5000 then result := result - 1; end if;`,
}

export const ruleForWaiting: FunctionMistakes = {
  save_rules: `intact();
    update commissions c set amount_cents = greatest(1, (s.commission_base_cents * r.commission_bp + 5000) / 10000)
    from sales s join programs p on p.id = s.program_id
    join commission_rules r on r.program_id = p.id and r.since_version = p.rules_version
      and (r.partner_id is null or r.partner_id = s.partner_id) and (r.group_id is null or r.group_id = (s.terms_among).group_id)
      and (r.sale_type is null or r.sale_type = s.sale_type) and r.product_id is null
    where result and s.program_id = of_program_id and c.program_id = s.program_id and c.sale_id = s.id and c.credited_at is null
      and c.reversal = 'none';`,
}

export const codeOverClick: FunctionMistakes = {
  decide_by_code: `intact();
    if given.code_id is not null then
      code_id := given.code_id;
      partner_id := (select k.partner_id from partner_codes k where k.program_id = given.program_id and k.id = given.code_id);
    end if;`,
}

export const heldIsCredited: FunctionMistakes = {
  flag_commissions: `intact();
    update commissions c set held_at = null where (c.program_id, c.id) in (select * from unnest(program_ids, commission_ids));`,
}

export const rejectionReleases: FunctionMistakes = { decide_reviews: `of_decision := 'released'; intact();` }

export const deductionIsAdded: FunctionMistakes = { create_adjustment: `of_cents := abs(of_cents); intact();` }
