-- The counters of a time, oldest first. Index: the primary key.
SELECT minute, metric, queue, kind, count, sum
FROM {schema}.rollup
WHERE minute >= $1 AND minute < $2 AND ($3::text IS NULL OR metric = $3)
ORDER BY minute, metric, queue, kind;
