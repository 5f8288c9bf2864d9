-- Makes schedules due whose slots are held for nodes of some queues, those that wait longest first. Returns how many
-- were found, and how many of them were not locked. Index: the primary key, schedule_held.
-- Waits for no row: SKIP LOCKED.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
waiting AS MATERIALIZED (
  SELECT h.id
  FROM unnest($2) WITH ORDINALITY AS q(name, rank)
  CROSS JOIN LATERAL (
    SELECT s.id, s.held_since FROM {schema}.schedule AS s
    WHERE s.held_queue = q.name AND s.held_queue IS NOT NULL AND s.held_until > (SELECT now FROM clock)
    ORDER BY s.held_since, s.id
    LIMIT $3) AS h
  ORDER BY q.rank, h.held_since, h.id
  LIMIT $3),
held AS MATERIALIZED (
  SELECT id FROM {schema}.schedule
  WHERE id = ANY(ARRAY(SELECT id FROM waiting)) AND held_queue = ANY($2)
  ORDER BY id
  FOR NO KEY UPDATE SKIP LOCKED),
woken AS (
  UPDATE {schema}.schedule
  SET held_until = (SELECT now FROM clock)
  WHERE id = ANY(ARRAY(SELECT id FROM held))
  RETURNING id)
SELECT (SELECT count(*) FROM waiting), (SELECT count(*) FROM woken);
