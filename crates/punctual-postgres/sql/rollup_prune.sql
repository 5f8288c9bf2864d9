-- Drops old counters, in order. Index: the primary key.
WITH gone AS (
  DELETE FROM {schema}.rollup WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}.rollup WHERE minute < $1
    ORDER BY minute, metric, queue, kind LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING 1)
SELECT count(*) FROM gone;
