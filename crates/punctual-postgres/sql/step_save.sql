-- Keeps a step of a job whose lease is locked, unless one of that name is kept or there are too many;
-- tells what was kept before. Index: the primary key, one partition.
WITH kept AS MATERIALIZED (
  SELECT result::text AS result FROM {schema}.job_step WHERE job = $1 AND name = $2),
saved AS (
  INSERT INTO {schema}.job_step (job, name, at, result)
  SELECT $1, $2, $3, $4::text::json
  WHERE NOT EXISTS (SELECT FROM kept)
    AND (SELECT count(*) FROM {schema}.job_step WHERE job = $1) < $5
  RETURNING 1)
SELECT (SELECT result FROM kept), EXISTS (SELECT FROM saved);
