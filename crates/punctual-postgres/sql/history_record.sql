-- Records which history of which server is written, and returns whether another one was recorded before.
-- A process that was not running during a failover learns of the failover here.
-- Index: meta_pkey. Nodes that record the same failover wait for each other's rows.
WITH recorded AS MATERIALIZED (
  SELECT (SELECT m.value FROM {schema}.meta AS m WHERE m.name = 'history_system') AS system,
    (SELECT m.value FROM {schema}.meta AS m WHERE m.name = 'history_timeline') AS timeline),
written AS (
  INSERT INTO {schema}.meta AS m (name, value)
  SELECT v.name, v.value
  FROM recorded AS r,
    (VALUES ('history_changed_at', $3::bigint), ('history_system', $1::bigint), ('history_timeline', $2::bigint))
      AS v(name, value)
  WHERE v.name <> 'history_changed_at' OR r.system <> $1 OR r.timeline <> $2
  ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE m.value <> excluded.value
  RETURNING m.name)
SELECT EXISTS (SELECT FROM written WHERE name = 'history_changed_at');
