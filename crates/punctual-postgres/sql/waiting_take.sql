-- Takes a waiting job from where it waits. Index: the primary keys. Waits for a claim of it.
WITH ready AS (
  DELETE FROM {schema}.job_ready WHERE job = $1
  RETURNING queue, kind, due_at, attempt, spent, crashes, priority, flags),
timer AS (
  DELETE FROM {schema}.job_timer WHERE job = $1
  RETURNING queue, kind, due_at, attempt, spent, crashes, priority, flags)
SELECT * FROM ready UNION ALL SELECT * FROM timer;
