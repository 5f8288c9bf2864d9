-- The unfinished jobs of a schedule, oldest first. Index: the primary key.
SELECT job FROM punctual_job_live WHERE schedule = ?1 ORDER BY job LIMIT ?2;
