-- Where a job is, in one snapshot: it is in one place at a time. Codes of `JobState`.
-- Index: the primary keys.
SELECT 2::smallint AS state FROM {schema}.job_ready WHERE job = $1
UNION ALL
SELECT CASE WHEN attempt <= 0 THEN 1 ELSE 3 END::smallint FROM {schema}.job_timer WHERE job = $1
UNION ALL
SELECT 4::smallint FROM {schema}.job_wait WHERE job = $1
UNION ALL
SELECT 5::smallint FROM {schema}.job_lease WHERE job = $1
UNION ALL
SELECT (outcome + 5)::smallint FROM {schema}.job_done WHERE job = $1;
