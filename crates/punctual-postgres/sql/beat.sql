-- One heartbeat: the node is alive, leads its roles and tells of its jobs' progress, unless it was
-- declared dead; and what it should know. A job under a lease that is none ends here: nobody could
-- name it to give it back. The timeline shows a failover.
-- A lease that a handler is settling in a transaction of its own is passed over: no beat may wait for it.
-- Index: the primary keys, job_lease_node. Leases are reached by arrays of jobs or one by one, never by a join whose order
-- statistics choose; width_bucket finds a job in a sorted array. The leases that the node knows of are hashed: with `<> ALL`
-- each of its rows would be compared with each of them, in a plan that is made once.
-- The commit is asynchronous: a lost beat is beaten again.
WITH off AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now FROM off),
alive AS (
  UPDATE {schema}.node AS n
  SET seen_at = c.now, seen_watch = coalesce((SELECT l.watched FROM {schema}.leader AS l WHERE l.role = $15), 0)
  FROM clock AS c
  WHERE n.id = $2 AND n.dead_at IS NULL
  RETURNING n.id),
renewed AS (
  UPDATE {schema}.leader AS l
  SET lease_until = c.now + $6 * interval '1 microsecond',
    renewed_at = c.now,
    watched = l.watched + CASE
      WHEN l.renewed_at BETWEEN c.now - ($6 * 3 / 2) * interval '1 microsecond' AND c.now
      THEN least($6, (extract(epoch FROM c.now - l.renewed_at) * 1000000)::bigint) ELSE 0 END
  FROM clock AS c, unnest($3::text[], $4::bigint[], $5::uuid[]) AS u(role, term, nonce)
  WHERE EXISTS (SELECT FROM alive) AND l.role = u.role AND l.term = u.term AND l.nonce = u.nonce
  RETURNING l.role, l.term, l.nonce, l.lease_until),
telling AS MATERIALIZED (
  SELECT l.job, p.percent, p.note
  FROM unnest($8::uuid[], $9::uuid[], $10::smallint[], $11::text[]) AS p(job, lease, percent, note)
  CROSS JOIN LATERAL (
    SELECT x.job FROM {schema}.job_lease AS x
    WHERE x.job = p.job AND x.lease = p.lease
    FOR NO KEY UPDATE SKIP LOCKED) AS l),
report AS MATERIALIZED (
  SELECT array_agg(job ORDER BY job) AS jobs, array_agg(percent ORDER BY job) AS percents,
    array_agg(note ORDER BY job) AS notes
  FROM telling),
progress AS (
  UPDATE {schema}.job_lease AS l
  SET progress_at = (SELECT now FROM clock),
    progress_percent = (SELECT percents FROM report)[width_bucket(l.job, (SELECT jobs FROM report))],
    progress_note = (SELECT notes FROM report)[width_bucket(l.job, (SELECT jobs FROM report))]
  WHERE EXISTS (SELECT FROM alive) AND l.job = ANY((SELECT jobs FROM report)::uuid[])),
bad AS (
  DELETE FROM {schema}.job_lease AS l
  WHERE EXISTS (SELECT FROM alive) AND l.node = $2 AND l.lease = '00000000-0000-0000-0000-000000000000'
  RETURNING l.job, l.queue, l.kind),
done AS (
  INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, queue, kind, error)
  SELECT b.job, 2, c.now, (
      SELECT coalesce(max(a.attempt), 0) FROM {schema}.job_attempt AS a WHERE a.job = b.job), 0, 0,
    b.queue, b.kind, $12
  FROM bad AS b, clock AS c
  ON CONFLICT DO NOTHING),
key AS (DELETE FROM {schema}.job_key WHERE job = ANY(ARRAY(SELECT job FROM bad)) AND expires_at IS NULL),
live AS (DELETE FROM {schema}.job_live WHERE job = ANY(ARRAY(SELECT job FROM bad)))
SELECT c.now, EXISTS (SELECT FROM alive),
  (SELECT array_agg(s.lease ORDER BY s.lease) FROM (
    SELECT DISTINCT l.lease FROM {schema}.job_lease AS l
    WHERE l.node = $2 AND l.lease NOT IN (SELECT unnest($7::uuid[])) AND l.lease <> '00000000-0000-0000-0000-000000000000'
    ORDER BY l.lease LIMIT $13) AS s),
  (SELECT array_agg(c.job ORDER BY c.job) FROM (
    SELECT l.job FROM {schema}.job_lease AS l
    WHERE l.node = $2 AND l.cancel IS NOT NULL AND l.lease <> '00000000-0000-0000-0000-000000000000' OFFSET 0) AS c),
  left(pg_walfile_name(pg_current_wal_lsn()), 8),
  r.role, r.term, r.nonce, r.lease_until,
  (SELECT array_agg(coalesce(n.lease_until, l.lease_until) ORDER BY s.number)
   FROM unnest($14::text[]) WITH ORDINALITY AS s(role, number)
   LEFT JOIN {schema}.leader AS l ON l.role = s.role LEFT JOIN renewed AS n ON n.role = s.role),
  (SELECT array_agg(b.job ORDER BY b.job) FROM bad AS b), (SELECT array_agg(b.queue ORDER BY b.job) FROM bad AS b),
  (SELECT array_agg(b.kind ORDER BY b.job) FROM bad AS b)
FROM clock AS c LEFT JOIN renewed AS r ON true;
