-- Writes lines of the logs of those jobs that are there; a line that is there already stays, and of two
-- that are the same the first is written. Index: the primary keys, one partition each. Locks the jobs, each
-- once, so that none is pruned before its lines can be seen.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
there AS MATERIALIZED (
  SELECT j.id
  FROM (SELECT DISTINCT u.id FROM unnest($2::uuid[]) AS u(id) ORDER BY u.id) AS i
  CROSS JOIN LATERAL (SELECT b.id FROM {schema}.job AS b WHERE b.id = i.id OFFSET 0 FOR KEY SHARE) AS j),
written AS (
  INSERT INTO {schema}.job_log (job, attempt, number, level, at, text)
  SELECT i.job, i.attempt, i.number, i.level, c.now, i.text
  FROM clock AS c, unnest($2::uuid[], $3::integer[], $4::integer[], $5::smallint[], $6::text[])
    WITH ORDINALITY AS i(job, attempt, number, level, text, place)
  WHERE i.job IN (SELECT id FROM there)
  ORDER BY i.place
  ON CONFLICT (job, attempt, number) DO NOTHING)
SELECT now FROM clock;
