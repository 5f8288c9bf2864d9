-- Takes a waiting job from where it waits; one that waits for others says of which schedule.
-- Index: the primary keys. Waits for a claim of it.
WITH ready AS (
  DELETE FROM {schema}.job_ready WHERE job = $1
  RETURNING queue, kind, due_at, attempt, spent, crashes, priority, flags, NULL::uuid AS schedule, NULL::timestamptz AS slot),
timer AS (
  DELETE FROM {schema}.job_timer WHERE job = $1
  RETURNING queue, kind, due_at, attempt, spent, crashes, priority, flags, NULL::uuid AS schedule, NULL::timestamptz AS slot),
wait AS (
  DELETE FROM {schema}.job_wait WHERE job = $1
  RETURNING queue, kind, due_at, attempt, spent, crashes, priority, flags, schedule, slot)
SELECT * FROM ready UNION ALL SELECT * FROM timer UNION ALL SELECT * FROM wait;
