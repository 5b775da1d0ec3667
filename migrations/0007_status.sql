-- The status of a program asks for its last test sale. Live sales are found by the primary key, newest first; the few test sales
-- among them would be looked for through all of them.
create index sales_test_idx on sales (program_id, id) where is_test;
