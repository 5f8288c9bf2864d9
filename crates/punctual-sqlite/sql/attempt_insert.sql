-- Notes an attempt that did not end in success. Index: the primary key.
INSERT OR REPLACE INTO punctual_job_attempt (job, attempt, lease, node, outcome, claimed_at, ended_at, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);
