-- Frees the waiting job with the first slot of each schedule that has no unfinished jobs but those that wait: to the
-- ready set, or to the timers if it is due later. One that cannot be read ends here, and is returned. Tells when the next
-- timer is due. Index: job_wait_order, job_live_order, the primary key of job_wait; the recursion goes from schedule to
-- schedule, then ctid. Only the first is ever looked at: what somebody else has locked is passed over,
-- and not what waits behind it.
WITH RECURSIVE step (schedule, job) AS (
  (SELECT schedule, job FROM {schema}.job_wait WHERE queue <> '' ORDER BY schedule, slot, job LIMIT 1)
  UNION ALL
  SELECT n.schedule, n.job FROM step AS p CROSS JOIN LATERAL (
    SELECT x.schedule, x.job FROM {schema}.job_wait AS x
    WHERE x.queue <> '' AND x.schedule > p.schedule ORDER BY x.schedule, x.slot, x.job LIMIT 1) AS n),
pick AS MATERIALIZED (
  SELECT p.schedule, p.job
  FROM step AS p CROSS JOIN LATERAL (
    SELECT EXISTS (
      SELECT FROM {schema}.job_live AS v
      WHERE v.schedule = p.schedule AND v.schedule <> '00000000-0000-0000-0000-000000000000'
        AND NOT EXISTS (
          SELECT FROM {schema}.job_wait AS o WHERE o.job = v.job OFFSET 0)) AS is_held
    OFFSET 0) AS h
  WHERE NOT h.is_held
  ORDER BY p.schedule
  LIMIT $2),
locked AS MATERIALIZED (
  SELECT w.tid FROM pick AS p CROSS JOIN LATERAL (
    SELECT x.ctid AS tid FROM {schema}.job_wait AS x
    WHERE x.job = p.job
    FOR UPDATE SKIP LOCKED) AS w),
freed AS (
  DELETE FROM {schema}.job_wait WHERE ctid = ANY(ARRAY(SELECT tid FROM locked))
  RETURNING job, due_at, queue, kind, attempt, spent, crashes, priority, flags),
sound AS MATERIALIZED (SELECT * FROM freed WHERE least(attempt, spent, crashes) >= 0),
bad AS MATERIALIZED (SELECT * FROM freed WHERE least(attempt, spent, crashes) < 0),
ready AS (
  INSERT INTO {schema}.job_ready (job, queue, rank, kind, due_at, attempt, spent, crashes, priority, flags)
  SELECT job, queue, due_at - priority * interval '60 seconds', kind, due_at, attempt, spent, crashes, priority, flags
  FROM sound WHERE due_at <= $1),
timer AS (
  INSERT INTO {schema}.job_timer (job, due_at, queue, kind, attempt, spent, crashes, priority, flags)
  SELECT job, due_at, queue, kind, attempt, spent, crashes, priority, flags
  FROM sound WHERE due_at > $1),
done AS (
  INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, queue, kind, error)
  SELECT b.job, 2, $1, (
      SELECT coalesce(max(a.attempt), 0) FROM {schema}.job_attempt AS a WHERE a.job = b.job), 0, 0,
    b.queue, b.kind, $3
  FROM bad AS b
  ON CONFLICT DO NOTHING),
key AS (DELETE FROM {schema}.job_key WHERE job = ANY(ARRAY(SELECT job FROM bad)) AND expires_at IS NULL),
live AS (DELETE FROM {schema}.job_live WHERE job = ANY(ARRAY(SELECT job FROM bad)))
SELECT least(
    (SELECT t.due_at FROM {schema}.job_timer AS t WHERE t.queue <> '' ORDER BY t.due_at, t.job LIMIT 1),
    (SELECT min(s.due_at) FROM sound AS s WHERE s.due_at > $1)),
  q.queue, q.count,
  (SELECT array_agg(b.job ORDER BY b.job) FROM bad AS b), (SELECT array_agg(b.queue ORDER BY b.job) FROM bad AS b),
  (SELECT array_agg(b.kind ORDER BY b.job) FROM bad AS b)
FROM (SELECT) AS one
LEFT JOIN (SELECT queue, count(*) AS count FROM sound WHERE due_at <= $1 GROUP BY queue) AS q ON true;
