-- The attempts of a job, oldest first. Index: the primary key, one partition.
SELECT attempt, node, claimed_at, ended_at, outcome, error
FROM {schema}.job_attempt WHERE job = $1 ORDER BY attempt;
