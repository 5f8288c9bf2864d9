-- Ends attempts. The deleted lease row is the fence: DELETE follows row versions, so that looking and
-- locking are one. A job that was to be cancelled has no further attempt. `next` has the codes of
-- `JobState`: 2 ready, 3 retrying, 6 succeeded, 7 failed, 8 cancelled. The caller names each job once.
-- A release with a wait (outcome 6, next 3) is one for lack of resources: the flags count it (32 and up, four bits).
-- Tells of which schedules a job waits that may go on now; somebody's who commits at the same time may be
-- missed, and is found by the next promote.
-- Tells of which jobs the queue has a limit, so that another job of it can start now.
-- A job of which nobody knows how often it was tried is not tried again.
-- Index: all limited queues are read at once, since they are few; the primary key of job_lease, and for flagged jobs job_key_job,
-- the primary key of job_live, and job_wait_order.
-- Tables are reached by arrays of jobs, never by a join: statistics of an idle moment turn a join into a comparison of
-- all leases with all items. $2 is sorted: width_bucket finds the item of a job by binary search. What an array
-- lacks at its end is NULL.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
deleted AS (
  DELETE FROM {schema}.job_lease AS l
  WHERE l.job = ANY($2::uuid[]) AND l.lease = ($3::uuid[])[width_bucket(l.job, $2::uuid[])]
  RETURNING l.job, l.lease, l.node, l.queue, l.kind, l.due_at, l.claimed_at, l.attempt, l.spent, l.crashes,
    l.priority, l.flags, l.cancel, width_bucket(l.job, $2::uuid[]) AS place),
gone AS MATERIALIZED (
  SELECT i.job, i.lease, i.node, i.queue, i.kind, i.due_at, i.claimed_at,
    CASE WHEN i.is_readable THEN i.attempt ELSE (
      SELECT coalesce(max(a.attempt), 0) + 1 FROM {schema}.job_attempt AS a WHERE a.job = i.job) END AS attempt,
    CASE WHEN i.is_readable THEN i.spent ELSE 0 END + (i.outcome NOT IN (6, 7))::integer AS spent,
    CASE WHEN i.is_readable THEN i.crashes ELSE 0 END + (i.outcome = 5)::integer AS crashes,
    i.priority, i.flags + CASE WHEN i.outcome = 6 AND i.next = 3 AND i.flags & 480 < 480 THEN 32 ELSE 0 END AS flags,
    ($6::bigint[])[i.place] AS delay_us, ($8::text[])[i.place] AS result,
    CASE WHEN i.cancel IS NOT NULL AND i.next < 6 AND i.outcome <> 5 THEN 3 ELSE i.outcome END AS outcome,
    CASE WHEN i.next >= 6 THEN i.next WHEN i.cancel IS NOT NULL THEN 8
      WHEN NOT i.is_readable THEN 7 ELSE i.next END AS next,
    CASE WHEN i.next >= 6 THEN ($7::text[])[i.place] WHEN i.cancel IS NOT NULL THEN i.cancel
      WHEN NOT i.is_readable THEN $9 ELSE ($7::text[])[i.place] END AS error
  FROM (
    SELECT d.*, ($4::smallint[])[d.place] AS outcome, ($5::smallint[])[d.place] AS next,
      least(d.attempt, d.spent, d.crashes) >= 0 AS is_readable
    FROM deleted AS d OFFSET 0) AS i),
done AS (
  INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, lease, node, claimed_at,
    queue, kind, error, result)
  SELECT job, next - 5, now, attempt, spent, crashes, lease, node, claimed_at,
    CASE WHEN next = 7 THEN queue END, CASE WHEN next = 7 THEN kind END, error, result::json
  FROM gone, clock WHERE next >= 6
  ON CONFLICT DO NOTHING),
snoozed AS (
  DELETE FROM {schema}.job_attempt
  WHERE job = ANY(ARRAY(SELECT job FROM gone WHERE outcome = 7)) AND outcome = 7),
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
  DELETE FROM {schema}.job_key
  WHERE job = ANY(ARRAY(SELECT job FROM gone WHERE flags & 1 <> 0 AND next >= 6)) AND expires_at IS NULL),
live AS (
  DELETE FROM {schema}.job_live
  WHERE job = ANY(ARRAY(SELECT job FROM gone WHERE flags & 8 <> 0 AND next >= 6))
  RETURNING job, schedule),
freeing AS MATERIALIZED (
  SELECT v.job FROM live AS v CROSS JOIN LATERAL (
    SELECT FROM {schema}.job_wait AS x WHERE x.schedule = v.schedule AND x.queue <> '' LIMIT 1) AS w),
limited AS MATERIALIZED (
  SELECT ARRAY(SELECT q.name FROM {schema}.queue AS q WHERE q.max_running IS NOT NULL) AS names)
SELECT c.now, g.job, g.lease, g.next::smallint, g.job IN (SELECT f.job FROM freeing AS f),
  coalesce(g.queue = ANY(m.names), false)
FROM clock AS c CROSS JOIN limited AS m LEFT JOIN gone AS g ON true;
