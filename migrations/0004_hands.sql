-- 0004 hands: what a worker says of itself that takes jobs from the commits that enqueue them. See the functions in hand_over.sql.
-- locks: workers (ACCESS EXCLUSIVE, for a moment: the column has no default to be written)

ALTER TABLE :"schema".workers ADD COLUMN hands jsonb;
COMMENT ON COLUMN :"schema".workers.hands IS 'How a commit may hand this worker its job: {"key": lock of the session that takes it, "lease": ms, "leases": {type: ms}, "ids": at most}. NULL: not at all.';
