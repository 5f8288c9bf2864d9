-- The counters of a time, oldest first. Index: the primary key.
SELECT minute, metric, queue, kind, count, sum
FROM punctual_rollup
WHERE (minute, metric, queue, kind) > (?1, ?2, ?3, ?4) AND minute < ?5 AND (?6 IS NULL OR metric = ?6)
ORDER BY minute, metric, queue, kind
LIMIT ?7;
