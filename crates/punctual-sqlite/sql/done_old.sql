-- Ended jobs that need not be kept, oldest first. Index: job_done_finished, job_done_died.
SELECT finished_at, job FROM punctual_job_done WHERE outcome <> 2 AND finished_at < ?1
UNION ALL
SELECT finished_at, job FROM punctual_job_done WHERE outcome = 2 AND finished_at < ?2
ORDER BY 1, 2
LIMIT ?3;
