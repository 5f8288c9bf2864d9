-- Lets a job wait for its schedule's earlier ones. Index: the primary key.
INSERT INTO punctual_job_wait (schedule, job, due_at, queue, kind, priority, attempt, spent, crashes, flags, slot)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);
