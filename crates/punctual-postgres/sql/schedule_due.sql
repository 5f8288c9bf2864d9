-- Schedules that have something to decide, earliest first: so many that are due since less than $4
-- microseconds, as many that are behind, and when the next one is due. Index: schedule_due.
WITH clock AS MATERIALIZED (
  SELECT now, now - $4 * interval '1 microsecond' AS fresh
  FROM (SELECT coalesce($1, clock_timestamp()) AS now) AS read)
SELECT s.*, c.now, n.due_at
FROM clock AS c
LEFT JOIN LATERAL (
  SELECT x.due_at FROM {schema}.schedule AS x
  WHERE x.shard = $2 AND x.due_at > c.now
  ORDER BY x.due_at LIMIT 1) AS n ON true
LEFT JOIN LATERAL (
  (SELECT id, tenant, name, owner, shard, revision, stamp, enabled, pause_who, pause_why, pause_since, pause_until,
    set_aside, next_slot, last_slot, created_at, changed_at, spec::text, set_name,
    held_queue, held_since, held_until, due_at, true AS is_fresh
  FROM {schema}.schedule
  WHERE shard = $2 AND due_at > c.fresh AND due_at <= c.now
  ORDER BY due_at, id
  LIMIT $3)
  UNION ALL
  (SELECT id, tenant, name, owner, shard, revision, stamp, enabled, pause_who, pause_why, pause_since, pause_until,
    set_aside, next_slot, last_slot, created_at, changed_at, spec::text, set_name,
    held_queue, held_since, held_until, due_at, false
  FROM {schema}.schedule
  WHERE shard = $2 AND due_at <= c.fresh
  ORDER BY due_at, id
  LIMIT $3)) AS s ON true;
