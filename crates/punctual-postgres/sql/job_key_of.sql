-- What a job needs to stand in line again: its key and what follows from its body.
-- Index: the primary key, one partition.
SELECT tenant, queue, kind, priority, max_attempts, schedule, unique_key, key_scope, key_us,
  CASE WHEN unique_key IS NOT NULL THEN payload::text END
FROM {schema}.job WHERE id = $1;
