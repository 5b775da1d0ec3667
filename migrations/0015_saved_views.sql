-- A person's views of the lists of a program: the filters, the order and the hidden columns, under a name.
create table saved_views (
  program_id bigint not null references programs (id),
  user_id text not null references users (id) on delete cascade,
  -- The path of the list below the program, such as `partners`.
  list text not null check (length(list) between 1 and 60),
  name text not null check (length(name) between 1 and 60),
  -- The query of the list's URL.
  query text not null check (length(query) <= 1000),
  saved_at timestamptz not null default now(),
  primary key (program_id, user_id, list, name)
);
create index saved_views_user_idx on saved_views (user_id);
