-- The counters of a time, added up by stretches. Index: the primary key.
SELECT to_timestamp(floor(date_part('epoch', minute) / $3) * $3) AS at, metric,
  CASE WHEN $4 THEN queue ELSE '' END AS place, sum(count)::bigint, sum(sum)::bigint
FROM {schema}.rollup
WHERE minute >= $1 AND minute < $2
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3;
