-- Is this lease's own outcome, or that it was called off, written down? Index: the primary key.
SELECT 1 FROM punctual_job_attempt WHERE job = ?1 AND lease = ?2 AND outcome IN (?3, 3) LIMIT 1;
