-- One heartbeat: the node is alive, leads its roles and tells of its jobs' progress, unless it was
-- declared dead; and what it should know. A job under a lease that is none ends here: nobody could
-- name it to give it back. The timeline shows a failover.
-- A lease that a handler is settling in a transaction of its own is passed over: no beat may wait for it.
-- Index: the primary keys, job_lease_node. The leases that the node knows of are hashed: with `<> ALL`
-- each of its rows would be compared with each of them, in a plan that is made once.
-- The commit is asynchronous: a lost beat is beaten again.
WITH off AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now FROM off),
alive AS (
  UPDATE {schema}.node AS n SET seen_at = c.now FROM clock AS c
  WHERE n.id = $2 AND n.dead_at IS NULL
  RETURNING n.id),
renewed AS (
  UPDATE {schema}.leader AS l
  SET lease_until = c.now + $6 * interval '1 microsecond',
    steady_since = CASE WHEN l.lease_until <= c.now THEN c.now ELSE least(l.steady_since, c.now) END
  FROM clock AS c, unnest($3::text[], $4::bigint[], $5::uuid[]) AS u(role, term, nonce)
  WHERE EXISTS (SELECT FROM alive) AND l.role = u.role AND l.term = u.term AND l.nonce = u.nonce
  RETURNING l.role, l.term, l.nonce, l.lease_until, l.steady_since),
telling AS (
  SELECT l.job, l.lease, p.percent, p.note
  FROM unnest($8::uuid[], $9::uuid[], $10::smallint[], $11::text[]) AS p(job, lease, percent, note)
  JOIN {schema}.job_lease AS l ON l.job = p.job AND l.lease = p.lease
  FOR NO KEY UPDATE OF l SKIP LOCKED),
progress AS (
  UPDATE {schema}.job_lease AS l
  SET progress_at = c.now, progress_percent = t.percent, progress_note = t.note
  FROM clock AS c, telling AS t
  WHERE EXISTS (SELECT FROM alive) AND l.job = t.job AND l.lease = t.lease),
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
key AS (DELETE FROM {schema}.job_key AS k USING bad AS b WHERE k.job = b.job AND k.expires_at IS NULL),
live AS (DELETE FROM {schema}.job_live AS v USING bad AS b WHERE v.job = b.job)
SELECT c.now, EXISTS (SELECT FROM alive),
  (SELECT array_agg(s.lease ORDER BY s.lease) FROM (
    SELECT DISTINCT l.lease FROM {schema}.job_lease AS l
    WHERE l.node = $2 AND l.lease NOT IN (SELECT unnest($7::uuid[])) AND l.lease <> '00000000-0000-0000-0000-000000000000'
    ORDER BY l.lease LIMIT $13) AS s),
  (SELECT array_agg(l.job ORDER BY l.job) FROM {schema}.job_lease AS l
   WHERE l.node = $2 AND l.cancel IS NOT NULL AND l.lease <> '00000000-0000-0000-0000-000000000000'),
  left(pg_walfile_name(pg_current_wal_lsn()), 8),
  r.role, r.term, r.nonce, r.lease_until, r.steady_since,
  (SELECT array_agg(coalesce(n.lease_until, l.lease_until) ORDER BY s.number)
   FROM unnest($14::text[]) WITH ORDINALITY AS s(role, number)
   LEFT JOIN {schema}.leader AS l ON l.role = s.role LEFT JOIN renewed AS n ON n.role = s.role)
FROM clock AS c LEFT JOIN renewed AS r ON true;
