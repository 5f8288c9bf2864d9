-- Takes the heads of queues in the order asked for, leases them and reads their bodies. A job that
-- cannot be read ends here, so that it blocks nobody behind it; of one whose seat cannot be read only
-- the recorded attempts are known. It takes nothing if the node is not
-- alive, or if a queue has a limit and the caller has not locked it ($10). Each job has a lease of $8, and those
-- beyond have the last.
-- Index: job_ready_order, from the watermark of each queue on; then ctid, which is safe because these
-- rows are never updated; job by its primary key, one partition each. Waits for no row: SKIP LOCKED.
-- Kinds are looked for in a way that no index can serve: `= ANY` would go into the index condition of
-- a table that seems small, at the price of its order, and each claim would read and sort all that wait.
-- The commit is asynchronous, since a lost claim is claimed again, but not for jobs with one attempt.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
gate AS MATERIALIZED (
  SELECT EXISTS (SELECT FROM {schema}.node WHERE id = $9 AND dead_at IS NULL) AS is_alive,
    NOT $10 AND EXISTS (SELECT FROM {schema}.queue WHERE name = ANY($2) AND max_running IS NOT NULL) AS is_limited),
pick AS MATERIALIZED (
  SELECT r.tid
  FROM gate AS g
  CROSS JOIN unnest($2::text[], $3::integer[], $4::timestamptz[], $5::uuid[]) WITH ORDINALITY
    AS q(name, most, mark_rank, mark_job, number)
  CROSS JOIN LATERAL (
    SELECT x.ctid AS tid FROM {schema}.job_ready AS x
    WHERE x.queue = q.name AND x.queue <> '' AND array_position($6, x.kind) IS NOT NULL
      AND (x.rank, x.job) > (q.mark_rank, q.mark_job)
    ORDER BY x.rank, x.job
    LIMIT q.most
    FOR UPDATE SKIP LOCKED) AS r
  WHERE g.is_alive AND NOT g.is_limited
    AND NOT EXISTS (
      SELECT FROM {schema}.queue AS p
      WHERE p.name = q.name AND p.pause_since IS NOT NULL
        AND (p.pause_until IS NULL OR p.pause_until > (SELECT now FROM clock)))
  LIMIT $7),
taken AS (
  DELETE FROM {schema}.job_ready WHERE ctid = ANY(ARRAY(SELECT tid FROM pick))
  RETURNING job, queue, rank, kind, due_at, attempt, spent, crashes, priority, flags),
found AS MATERIALIZED (
  SELECT t.*, ($8::uuid[])[least(row_number() OVER (), cardinality($8::uuid[]))::integer] AS lease, j.tenant, j.owner, j.max_attempts, j.timeout_us, j.budget_us, j.fresh_after, j.expires_at,
    j.schedule, j.slot, j.facts, j.tags, j.trace, j.payload,
    j.id IS NOT NULL AS is_there, least(t.attempt, t.spent, t.crashes) >= 0 AS is_seated,
    j.id IS NOT NULL AND least(t.attempt, t.spent, t.crashes) >= 0
      AND (j.schedule IS NULL) = (j.facts IS NULL)
      AND least(j.timeout_us, j.budget_us, j.max_attempts, j.fresh_after) >= 0
      AND (j.tags IS NULL OR jsonb_typeof(j.tags) = 'array'
        AND NOT jsonb_path_exists(j.tags, '$[*] ? (@.type() <> "string")')) AS is_sound
  FROM taken AS t
  LEFT JOIN LATERAL (SELECT * FROM {schema}.job AS b WHERE b.id = t.job OFFSET 0) AS j ON true),
leased AS (
  INSERT INTO {schema}.job_lease (job, lease, node, queue, kind, due_at, claimed_at, attempt, spent,
    crashes, priority, flags)
  SELECT job, lease, $9, queue, kind, due_at, now, attempt + 1, spent, crashes, priority, flags
  FROM found, clock WHERE is_sound),
done AS (
  INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, queue, kind, error)
  SELECT f.job, 2, c.now, CASE WHEN f.is_seated THEN f.attempt + 1 ELSE (
      SELECT coalesce(max(a.attempt), 0) FROM {schema}.job_attempt AS a WHERE a.job = f.job) END,
    CASE WHEN f.is_seated THEN f.spent ELSE 0 END, CASE WHEN f.is_seated THEN f.crashes ELSE 0 END,
    f.queue, f.kind, $11
  FROM found AS f, clock AS c WHERE NOT f.is_sound AND f.is_there
  ON CONFLICT DO NOTHING),
key AS (
  DELETE FROM {schema}.job_key
  WHERE job = ANY(ARRAY(SELECT job FROM found WHERE NOT is_sound)) AND expires_at IS NULL),
live AS (
  DELETE FROM {schema}.job_live WHERE job = ANY(ARRAY(SELECT job FROM found WHERE NOT is_sound))),
durable AS MATERIALIZED (
  SELECT set_config('synchronous_commit',
    CASE WHEN bool_or(flags & 16 <> 0) THEN current_setting('synchronous_commit') ELSE 'off' END, true)
  FROM taken)
SELECT c.now, g.is_alive, g.is_limited, f.rank, f.job, f.queue, f.kind, f.due_at, f.attempt + 1, f.spent,
  f.crashes, f.priority, f.tenant, f.owner, f.max_attempts, f.timeout_us, f.budget_us,
  CASE WHEN f.budget_us IS NOT NULL THEN (
    SELECT coalesce(sum(greatest(extract(epoch FROM a.ended_at - a.claimed_at), 0)) * 1000000, 0)::bigint
    FROM {schema}.job_attempt AS a
    WHERE a.job = f.job AND a.attempt > f.fresh_after AND a.outcome <> 7) END AS used,
  f.expires_at, f.schedule, f.slot, f.facts::text, f.tags::text, f.trace, f.payload::text, (SELECT count(*) FROM taken), f.lease,
  f.flags, f.is_sound
FROM durable CROSS JOIN clock AS c CROSS JOIN gate AS g LEFT JOIN found AS f ON f.is_there;
