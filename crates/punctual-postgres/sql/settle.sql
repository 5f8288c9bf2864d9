-- Ends attempts. The deleted lease row is the fence: DELETE follows row versions, so that looking and
-- locking are one. A job that was to be cancelled has no further attempt. `next` has the codes of
-- `JobState`: 2 ready, 3 retrying, 6 succeeded, 7 failed, 8 cancelled. The caller names each job once.
-- Tells of which schedules a job waits that may go on now; somebody's who commits at the same time may be
-- missed, and is found by the next promote.
-- A job of which nobody knows how often it was tried is not tried again.
-- Index: the primary key of job_lease, and for flagged jobs job_key_job, job_live_job and that of job_wait. Items come
-- sorted by job, so that two settles lock in one order.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
item AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::smallint[], $5::smallint[], $6::bigint[], $7::text[], $8::text[])
    AS i(job, lease, outcome, next, delay_us, error, result)),
gone AS (
  DELETE FROM {schema}.job_lease AS l USING item AS i WHERE l.job = i.job AND l.lease = i.lease
  RETURNING l.job, l.lease, l.node, l.queue, l.kind, l.due_at, l.claimed_at,
    CASE WHEN least(l.attempt, l.spent, l.crashes) >= 0 THEN l.attempt ELSE (
      SELECT coalesce(max(a.attempt), 0) + 1 FROM {schema}.job_attempt AS a WHERE a.job = l.job) END AS attempt,
    CASE WHEN least(l.attempt, l.spent, l.crashes) >= 0 THEN l.spent ELSE 0 END
      + (i.outcome NOT IN (6, 7))::integer AS spent,
    CASE WHEN least(l.attempt, l.spent, l.crashes) >= 0 THEN l.crashes ELSE 0 END
      + (i.outcome = 5)::integer AS crashes,
    l.priority, l.flags, i.delay_us, i.result,
    CASE WHEN l.cancel IS NOT NULL AND i.next < 6 AND i.outcome <> 5 THEN 3 ELSE i.outcome END AS outcome,
    CASE WHEN i.next >= 6 THEN i.next WHEN l.cancel IS NOT NULL THEN 8
      WHEN least(l.attempt, l.spent, l.crashes) < 0 THEN 7 ELSE i.next END AS next,
    CASE WHEN i.next >= 6 THEN i.error WHEN l.cancel IS NOT NULL THEN l.cancel
      WHEN least(l.attempt, l.spent, l.crashes) < 0 THEN $9 ELSE i.error END AS error),
done AS (
  INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, lease, node, claimed_at,
    queue, kind, error, result)
  SELECT job, next - 5, now, attempt, spent, crashes, lease, node, claimed_at,
    CASE WHEN next = 7 THEN queue END, CASE WHEN next = 7 THEN kind END, error, result::json
  FROM gone, clock WHERE next >= 6
  ON CONFLICT DO NOTHING),
snoozed AS (
  DELETE FROM {schema}.job_attempt AS a USING gone AS g
  WHERE g.outcome = 7 AND a.job = g.job AND a.outcome = 7),
attempts AS (
  INSERT INTO {schema}.job_attempt (job, attempt, lease, node, outcome, claimed_at, ended_at, error)
  SELECT job, attempt, lease, node, outcome, claimed_at, now, error
  FROM gone, clock WHERE outcome <> 1
  ON CONFLICT DO NOTHING),
timer AS (
  INSERT INTO {schema}.job_timer (job, due_at, queue, kind, attempt, spent, crashes, priority, flags)
  SELECT job, least(now + delay_us * interval '1 microsecond', timestamptz '9999-12-30 22:00:00+00'),
    queue, kind, attempt, spent, crashes, priority, flags
  FROM gone, clock WHERE next = 3),
ready AS (
  INSERT INTO {schema}.job_ready (job, queue, rank, kind, due_at, attempt, spent, crashes, priority, flags)
  SELECT job, queue, due_at - priority * interval '60 seconds', kind, due_at, attempt, spent, crashes, priority, flags
  FROM gone WHERE next = 2),
key AS (
  DELETE FROM {schema}.job_key AS k USING gone AS g
  WHERE g.flags & 1 <> 0 AND g.next >= 6 AND k.job = g.job AND k.expires_at IS NULL),
live AS (
  DELETE FROM {schema}.job_live AS v USING gone AS g
  WHERE g.flags & 8 <> 0 AND g.next >= 6 AND v.job = g.job
  RETURNING v.job, v.schedule),
freeing AS MATERIALIZED (
  SELECT v.job FROM live AS v CROSS JOIN LATERAL (
    SELECT FROM {schema}.job_wait AS x WHERE x.schedule = v.schedule LIMIT 1) AS w)
SELECT c.now, g.job, g.lease, g.next::smallint, f.job IS NOT NULL
FROM clock AS c LEFT JOIN gone AS g ON true LEFT JOIN freeing AS f ON f.job = g.job;
