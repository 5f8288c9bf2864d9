-- Enters a node, or enters it again, and makes schedules due whose held slots it may run. Index: the primary
-- keys, schedule_held. Locks these schedules in the order of their ids, as firing does.
WITH clock AS MATERIALIZED (SELECT coalesce($7, clock_timestamp()) AS now),
joined AS (
  INSERT INTO {schema}.node (id, name, version, queues, kinds, labels, joined_at, seen_at, seen_watch)
  SELECT $1, $2, $3, $4::text::json, $5::text::json, $6::text::json, now, now,
    coalesce((SELECT watched FROM {schema}.leader WHERE role = $8), 0)
  FROM clock
  ON CONFLICT (id) DO UPDATE
  SET name = excluded.name, version = excluded.version, queues = excluded.queues, kinds = excluded.kinds,
    labels = excluded.labels, seen_at = excluded.seen_at, seen_watch = excluded.seen_watch, dead_at = NULL
  RETURNING seen_at),
held AS MATERIALIZED (
  SELECT id FROM {schema}.schedule
  WHERE id = ANY(ARRAY(
    SELECT x.id FROM {schema}.schedule AS x
    WHERE x.held_queue = ANY($9) AND x.held_queue IS NOT NULL
    LIMIT $10))
  ORDER BY id
  FOR NO KEY UPDATE),
woken AS (
  UPDATE {schema}.schedule
  SET held_until = (SELECT now FROM clock)
  WHERE id = ANY(ARRAY(SELECT id FROM held))
  RETURNING id)
SELECT seen_at, EXISTS (SELECT FROM woken) FROM joined;
