-- Drops definitions that were superseded long ago, oldest first. Index: schedule_revision_superseded.
WITH gone AS (
  DELETE FROM {schema}.schedule_revision WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}.schedule_revision WHERE superseded_at < $1
    ORDER BY superseded_at, schedule, revision LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING 1)
SELECT count(*) FROM gone;
