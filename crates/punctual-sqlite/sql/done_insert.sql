-- Writes a job's end. Index: the primary key.
INSERT INTO punctual_job_done (job, outcome, finished_at, attempt, spent, crashes, lease, node, claimed_at,
  queue, kind, error, result)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);
