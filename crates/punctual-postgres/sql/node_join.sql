-- Enters a node, or enters it again, and makes schedules due whose held slots it may run, those that wait longest
-- first. Returns how many were found, and how many of them were not locked. Index: the primary keys, schedule_held.
-- Waits for no row: SKIP LOCKED.
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
waiting AS MATERIALIZED (
  SELECT h.id
  FROM unnest($9) WITH ORDINALITY AS q(name, rank)
  CROSS JOIN LATERAL (
    SELECT s.id, s.held_since FROM {schema}.schedule AS s
    WHERE s.held_queue = q.name AND s.held_queue IS NOT NULL AND s.held_until > (SELECT now FROM clock)
    ORDER BY s.held_since, s.id
    LIMIT $10) AS h
  ORDER BY q.rank, h.held_since, h.id
  LIMIT $10),
held AS MATERIALIZED (
  SELECT id FROM {schema}.schedule
  WHERE id = ANY(ARRAY(SELECT id FROM waiting)) AND held_queue = ANY($9)
  ORDER BY id
  FOR NO KEY UPDATE SKIP LOCKED),
woken AS (
  UPDATE {schema}.schedule
  SET held_until = (SELECT now FROM clock)
  WHERE id = ANY(ARRAY(SELECT id FROM held))
  RETURNING id)
SELECT seen_at, (SELECT count(*) FROM waiting), (SELECT count(*) FROM woken) FROM joined;
