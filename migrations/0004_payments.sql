-- Which paid withdrawal a commission was paid with. The rule stands at payWithdrawal in lib/money/withdrawals.ts.
alter table commissions
  add column withdrawal_id bigint,
  add foreign key (program_id, withdrawal_id, partner_id, currency) references withdrawals (program_id, id, partner_id, currency),
  add check ((paid_at is null) = (withdrawal_id is null));
create index commissions_withdrawal_idx on commissions (program_id, withdrawal_id) where withdrawal_id is not null;
-- What stands in a balance and was not paid yet.
create index commissions_unpaid_idx on commissions (program_id, partner_id, currency, id)
  where credited_at is not null and paid_at is null;

-- The request that asked for a withdrawal: one sent twice asks once.
alter table withdrawals add column request_id uuid;
create unique index withdrawals_request_key on withdrawals (program_id, request_id);
