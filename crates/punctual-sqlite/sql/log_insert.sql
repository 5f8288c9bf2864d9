-- Writes a line of a job's log, if there is such a job and no such line. Index: the primary key; the
-- unique id of the job.
INSERT INTO punctual_job_log (job, attempt, number, level, at, text)
SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS (SELECT 1 FROM punctual_job WHERE id = ?1)
ON CONFLICT (job, attempt, number) DO NOTHING;
