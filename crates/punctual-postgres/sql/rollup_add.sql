-- Adds to counters, each named once, in order, so that two callers lock alike; one that is full stays so. Index: the primary key.
INSERT INTO {schema}.rollup AS r (minute, metric, queue, kind, count, sum)
SELECT minute, metric, queue, kind, count, sum
FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
  AS u(minute, metric, queue, kind, count, sum)
ORDER BY minute, metric, queue, kind
ON CONFLICT (minute, metric, queue, kind) DO UPDATE
SET count = least(greatest(r.count::numeric + excluded.count, -9223372036854775808), 9223372036854775807)::bigint,
  sum = least(greatest(r.sum::numeric + excluded.sum, -9223372036854775808), 9223372036854775807)::bigint;
