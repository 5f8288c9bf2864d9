-- The counters of a time, added up by stretches, in no order: asked for one, a plan that knows nothing of the times sorts every counter on disk instead of few sums. Index: the primary key.
SELECT date_bin(make_interval(secs => $3), minute, 'epoch') AS at, metric,
  CASE WHEN $4 THEN queue ELSE '' END AS place, sum(count)::bigint, sum(sum)::bigint
FROM {schema}.rollup
WHERE minute >= $1 AND minute < $2
GROUP BY 1, 2, 3;
