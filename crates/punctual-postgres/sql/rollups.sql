-- The counters of a time, oldest first. Index: the primary key.
SELECT minute, metric, queue, kind, count, sum
FROM {schema}.rollup
WHERE (minute, metric, queue, kind) > ($1, $2, $3, $4) AND minute < $5
ORDER BY minute, metric, queue, kind
LIMIT $6;
