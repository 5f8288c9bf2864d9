-- Drops old entries, oldest first. Index: audit_at.
WITH gone AS (
  DELETE FROM {schema}.audit WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}.audit WHERE at < $1 ORDER BY at, id LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING 1)
SELECT count(*) FROM gone;
