-- Ends jobs that wait past their start deadline, with what they held until their end; one that cannot be read ends
-- with that as its error ($5). Each deadline that was checked is deleted, and listed again if its job has not ended:
-- it runs ($3 µs later), is being moved at this moment, or has time left (a day later at most). A job without
-- a deadline was retried by an operator.
-- Index: the primary key of job_deadline, then ctid, which is safe because these rows are never updated; job and
-- job_done by their primary keys, one partition each; job_ready, job_timer and job_wait by theirs, then ctid.
-- Waits for no row: SKIP LOCKED. What is locked is being claimed or moved, and is checked again.
WITH listed AS MATERIALIZED (
  SELECT x.ctid AS tid, x.check_at, x.job FROM {schema}.job_deadline AS x
  WHERE x.check_at < $1
  ORDER BY x.check_at, x.job
  LIMIT $2
  FOR UPDATE SKIP LOCKED),
checked AS (DELETE FROM {schema}.job_deadline WHERE ctid = ANY(ARRAY(SELECT tid FROM listed))),
unfinished AS MATERIALIZED (
  SELECT l.check_at, l.job, j.expires_at
  FROM listed AS l
  CROSS JOIN LATERAL (SELECT y.expires_at FROM {schema}.job AS y WHERE y.id = l.job OFFSET 0) AS j
  WHERE j.expires_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM {schema}.job_done AS d WHERE d.job = l.job OFFSET 0)),
late AS MATERIALIZED (SELECT u.check_at, u.job FROM unfinished AS u WHERE u.expires_at < $1),
ready AS (
  DELETE FROM {schema}.job_ready WHERE ctid = ANY(ARRAY(
    SELECT r.tid FROM late AS l CROSS JOIN LATERAL (
      SELECT x.ctid AS tid FROM {schema}.job_ready AS x WHERE x.job = l.job FOR UPDATE SKIP LOCKED) AS r))
  RETURNING job, queue, kind, due_at, attempt, spent, crashes, flags),
timer AS (
  DELETE FROM {schema}.job_timer WHERE ctid = ANY(ARRAY(
    SELECT t.tid FROM late AS l CROSS JOIN LATERAL (
      SELECT x.ctid AS tid FROM {schema}.job_timer AS x WHERE x.job = l.job FOR UPDATE SKIP LOCKED) AS t))
  RETURNING job, queue, kind, due_at, attempt, spent, crashes, flags),
wait AS (
  DELETE FROM {schema}.job_wait WHERE ctid = ANY(ARRAY(
    SELECT w.tid FROM late AS l CROSS JOIN LATERAL (
      SELECT x.ctid AS tid FROM {schema}.job_wait AS x WHERE x.job = l.job FOR UPDATE SKIP LOCKED) AS w))
  RETURNING job, queue, kind, due_at, attempt, spent, crashes, flags),
taken AS MATERIALIZED (
  SELECT w.*, least(w.attempt, w.spent, w.crashes) >= 0 AS is_sound
  FROM (SELECT * FROM ready UNION ALL SELECT * FROM timer UNION ALL SELECT * FROM wait) AS w),
done AS (
  INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, queue, kind, error)
  SELECT t.job, 2, $1, CASE WHEN t.is_sound THEN t.attempt ELSE (
      SELECT coalesce(max(a.attempt), 0) FROM {schema}.job_attempt AS a WHERE a.job = t.job) END,
    CASE WHEN t.is_sound THEN t.spent ELSE 0 END, CASE WHEN t.is_sound THEN t.crashes ELSE 0 END,
    t.queue, t.kind, CASE WHEN t.is_sound THEN $4 ELSE $5 END
  FROM taken AS t
  ON CONFLICT DO NOTHING),
key AS (
  DELETE FROM {schema}.job_key
  WHERE job = ANY(ARRAY(SELECT job FROM taken WHERE flags & 1 <> 0 OR NOT is_sound)) AND expires_at IS NULL),
live AS (
  DELETE FROM {schema}.job_live
  WHERE job = ANY(ARRAY(SELECT job FROM taken WHERE flags & 8 <> 0 OR NOT is_sound))),
again AS (
  INSERT INTO {schema}.job_deadline (check_at, job)
  SELECT CASE WHEN u.expires_at < $1 THEN $1 + $3 * interval '1 microsecond'
      ELSE least(u.expires_at, $1 + interval '24 hours') END, u.job
  FROM unfinished AS u
  WHERE u.job NOT IN (SELECT t.job FROM taken AS t))
SELECT c.count, t.job, t.queue, t.kind, t.due_at, t.is_sound
FROM (SELECT count(*) AS count FROM listed) AS c
LEFT JOIN (taken AS t JOIN late AS l ON l.job = t.job) ON true
ORDER BY l.check_at, l.job;
