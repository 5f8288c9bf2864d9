-- Lets a job wait for its schedule's earlier ones. Index: the primary key.
INSERT INTO {schema}.job_wait (job, queue, kind, due_at, attempt, spent, crashes, priority, flags, schedule, slot)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);
