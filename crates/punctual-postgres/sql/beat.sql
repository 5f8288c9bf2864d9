-- One heartbeat: the node is alive, leads its roles and tells of its jobs' progress, unless it was
-- declared dead; and what it should know. The timeline shows a failover.
-- Index: the primary keys, job_lease_node. The commit is asynchronous: a lost beat is beaten again.
WITH off AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now FROM off),
alive AS (
  UPDATE {schema}.node AS n SET seen_at = c.now FROM clock AS c
  WHERE n.id = $2 AND n.dead_at IS NULL
  RETURNING n.id),
renewed AS (
  UPDATE {schema}.leader AS l
  SET lease_until = c.now + $6 * interval '1 microsecond',
    steady_since = CASE WHEN l.lease_until <= c.now THEN c.now ELSE l.steady_since END
  FROM clock AS c, unnest($3::text[], $4::bigint[], $5::uuid[]) AS u(role, term, nonce)
  WHERE EXISTS (SELECT FROM alive) AND l.role = u.role AND l.term = u.term AND l.nonce = u.nonce
  RETURNING l.role, l.term, l.nonce, l.lease_until, l.steady_since),
progress AS (
  UPDATE {schema}.job_lease AS l
  SET progress_at = c.now, progress_percent = p.percent, progress_note = p.note
  FROM clock AS c, unnest($8::uuid[], $9::uuid[], $10::smallint[], $11::text[]) AS p(job, lease, percent, note)
  WHERE EXISTS (SELECT FROM alive) AND l.job = p.job AND l.lease = p.lease)
SELECT c.now, EXISTS (SELECT FROM alive),
  (SELECT count(*) FROM {schema}.job_lease AS l WHERE l.node = $2 AND l.lease <> ALL($7)),
  (SELECT array_agg(l.job ORDER BY l.job) FROM {schema}.job_lease AS l WHERE l.node = $2 AND l.cancel IS NOT NULL),
  left(pg_walfile_name(pg_current_wal_lsn()), 8),
  r.role, r.term, r.nonce, r.lease_until, r.steady_since
FROM clock AS c LEFT JOIN renewed AS r ON true;
