-- Puts a job in line. Index: the primary key, and job_ready_job, which holds that it stands in line once.
INSERT INTO punctual_job_ready (queue, kind, rank, job, due_at, priority, attempt, spent, crashes, flags)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);
