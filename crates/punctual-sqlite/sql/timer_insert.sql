-- Lets a job wait for its time. Index: the primary key.
INSERT INTO punctual_job_timer (due_at, job, queue, kind, priority, attempt, spent, crashes, flags)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);
