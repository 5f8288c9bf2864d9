-- Ends an attempt: the deleted row is the fence. Index: the primary key.
DELETE FROM punctual_job_lease WHERE job = ?1 AND lease = ?2
RETURNING node, queue, kind, due_at, priority, attempt, spent, crashes, flags, claimed_at, cancel;
