-- The log of a job from its end, before a line. Index: the primary key.
SELECT attempt, number, level, text, at FROM punctual_job_log
WHERE job = ?1 AND (attempt, number) < (?2, ?3)
ORDER BY attempt DESC, number DESC;
