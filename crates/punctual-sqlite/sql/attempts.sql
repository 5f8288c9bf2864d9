-- The attempts of a job, oldest first. Index: the primary key.
SELECT attempt, node, claimed_at, ended_at, outcome, error
FROM punctual_job_attempt WHERE job = ?1 ORDER BY attempt;
