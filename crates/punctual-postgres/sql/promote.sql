-- Moves due timers to the ready set, and tells when the next is due. Index: job_timer_due, then ctid.
-- Waits for no row: SKIP LOCKED.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
due AS (
  DELETE FROM {schema}.job_timer WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}.job_timer WHERE due_at <= (SELECT now FROM clock)
    ORDER BY due_at, job
    LIMIT $2
    FOR UPDATE SKIP LOCKED))
  RETURNING job, due_at, queue, kind, attempt, spent, crashes, priority, flags),
ready AS (
  INSERT INTO {schema}.job_ready (job, queue, rank, kind, due_at, attempt, spent, crashes, priority, flags)
  SELECT job, queue, due_at - priority * interval '60 seconds', kind, due_at, attempt, spent, crashes, priority, flags
  FROM due),
last AS MATERIALIZED (
  SELECT due_at, job FROM due
  UNION ALL SELECT timestamptz '-infinity', uuid '00000000-0000-0000-0000-000000000000'
  ORDER BY due_at DESC, job DESC LIMIT 1)
SELECT c.now, n.due_at, q.queue, q.count
FROM clock AS c
LEFT JOIN LATERAL (
  SELECT t.due_at FROM {schema}.job_timer AS t
  WHERE (t.due_at, t.job) > (SELECT due_at, job FROM last)
  ORDER BY t.due_at, t.job LIMIT 1) AS n ON true
LEFT JOIN (SELECT queue, count(*) AS count FROM due GROUP BY queue) AS q ON true;
