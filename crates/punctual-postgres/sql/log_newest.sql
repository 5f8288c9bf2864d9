-- The log of a job from its end, before a line. Index: the primary key, one partition.
SELECT attempt, number, level, text, at FROM {schema}.job_log
WHERE job = $1 AND (attempt, number) < ($2, $3)
ORDER BY attempt DESC, number DESC
LIMIT $4;
