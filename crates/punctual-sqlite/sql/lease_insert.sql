-- Notes that an attempt is under way. Index: the primary key.
INSERT INTO punctual_job_lease (job, lease, node, queue, kind, due_at, priority, attempt, spent, crashes,
  flags, claimed_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);
