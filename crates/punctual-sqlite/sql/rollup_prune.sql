-- Drops old counters, in order. Index: the primary key.
DELETE FROM punctual_rollup WHERE (minute, metric, queue, kind) IN (
  SELECT minute, metric, queue, kind FROM punctual_rollup
  WHERE minute < ?1
  ORDER BY minute, metric, queue, kind
  LIMIT ?2);
