-- Lets a job wait for its time. Index: the primary key.
INSERT INTO {schema}.job_timer (job, queue, kind, due_at, attempt, spent, crashes, priority, flags)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);
