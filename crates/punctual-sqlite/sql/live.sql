-- The unfinished jobs of a schedule, oldest first, and which of them wait for the others.
-- Index: the primary keys.
SELECT l.job, w.job IS NOT NULL
FROM punctual_job_live AS l
LEFT JOIN punctual_job_wait AS w ON w.job = l.job
WHERE l.schedule = ?1
ORDER BY l.job
LIMIT ?2;
