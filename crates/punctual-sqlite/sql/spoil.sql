-- Spoils a job's row for tests: no length of time is negative. Index: the unique id.
UPDATE punctual_job SET timeout_us = -1 WHERE id = ?1;
