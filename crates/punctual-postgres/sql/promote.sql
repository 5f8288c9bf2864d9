-- Moves due timers to the ready set, and tells when the next is due, whether any job waits for others, and when the next
-- start deadline is checked. One that cannot be read ends here, and is returned.
-- Index: job_timer_due, then ctid; job_wait_order and the primary key of job_deadline, whose dead rows are passed over.
-- Waits for no row: SKIP LOCKED.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
due AS (
  DELETE FROM {schema}.job_timer WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}.job_timer WHERE queue <> '' AND due_at <= (SELECT now FROM clock)
    ORDER BY due_at, job
    LIMIT $2
    FOR UPDATE SKIP LOCKED))
  RETURNING job, due_at, queue, kind, attempt, spent, crashes, priority, flags),
ready AS (
  INSERT INTO {schema}.job_ready (job, queue, rank, kind, due_at, attempt, spent, crashes, priority, flags)
  SELECT job, queue, due_at - priority * interval '60 seconds', kind, due_at, attempt, spent, crashes, priority, flags
  FROM due WHERE least(attempt, spent, crashes) >= 0),
bad AS MATERIALIZED (SELECT * FROM due WHERE least(attempt, spent, crashes) < 0),
done AS (
  INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, queue, kind, error)
  SELECT b.job, 2, c.now, (
      SELECT coalesce(max(a.attempt), 0) FROM {schema}.job_attempt AS a WHERE a.job = b.job), 0, 0,
    b.queue, b.kind, $3
  FROM bad AS b, clock AS c
  ON CONFLICT DO NOTHING),
key AS (DELETE FROM {schema}.job_key WHERE job = ANY(ARRAY(SELECT job FROM bad)) AND expires_at IS NULL),
live AS (DELETE FROM {schema}.job_live WHERE job = ANY(ARRAY(SELECT job FROM bad))),
last AS MATERIALIZED (
  SELECT due_at, job FROM due
  UNION ALL SELECT timestamptz '-infinity', uuid '00000000-0000-0000-0000-000000000000'
  ORDER BY due_at DESC, job DESC LIMIT 1)
SELECT c.now, n.due_at, q.queue, q.count,
  (SELECT true FROM {schema}.job_wait WHERE queue <> '' ORDER BY schedule, slot, job LIMIT 1) IS NOT NULL,
  (SELECT check_at FROM {schema}.job_deadline ORDER BY check_at, job LIMIT 1),
  (SELECT array_agg(b.job ORDER BY b.job) FROM bad AS b), (SELECT array_agg(b.queue ORDER BY b.job) FROM bad AS b),
  (SELECT array_agg(b.kind ORDER BY b.job) FROM bad AS b)
FROM clock AS c
LEFT JOIN LATERAL (
  SELECT t.due_at FROM {schema}.job_timer AS t
  WHERE t.queue <> '' AND (t.due_at, t.job) > (SELECT due_at, job FROM last)
  ORDER BY t.due_at, t.job LIMIT 1) AS n ON true
LEFT JOIN (
  SELECT queue, count(*) AS count FROM due WHERE least(attempt, spent, crashes) >= 0 GROUP BY queue) AS q ON true;
