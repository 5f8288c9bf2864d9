-- A job that snoozes for years keeps only its newest snooze. Index: the primary key.
DELETE FROM punctual_job_attempt WHERE job = ?1 AND outcome = ?2;
