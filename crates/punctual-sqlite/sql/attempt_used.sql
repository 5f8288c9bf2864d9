-- Time that the attempts of a job took, in microseconds. Index: the primary key.
SELECT coalesce(sum(max(ended_at - claimed_at, 0)), 0) FROM punctual_job_attempt WHERE job = ?1;
