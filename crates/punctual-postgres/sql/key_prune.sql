-- Drops keys whose time is over, oldest first. Index: job_key_expiry.
WITH gone AS (
  DELETE FROM {schema}.job_key WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}.job_key WHERE expires_at <= $1
    ORDER BY expires_at, tenant, key LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING 1)
SELECT count(*) FROM gone;
