-- The counters of a time, oldest first, and whether each is asked for. Index: the primary key.
SELECT minute, metric, queue, kind, count, sum, ?6 IS NULL OR metric = ?6
FROM punctual_rollup
WHERE (minute, metric, queue, kind) > (?1, ?2, ?3, ?4) AND minute < ?5
ORDER BY minute, metric, queue, kind;
