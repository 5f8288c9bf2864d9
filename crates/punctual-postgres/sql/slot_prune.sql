-- Drops rows of the ledger that need not be kept, oldest first. Index: slot_decided.
WITH gone AS (
  DELETE FROM {schema}.slot WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}.slot WHERE decided_at < $1
    ORDER BY decided_at, schedule, slot, run LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING 1)
SELECT count(*) FROM gone;
