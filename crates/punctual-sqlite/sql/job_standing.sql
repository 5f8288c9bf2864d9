-- What decides whether a job that lost its node is tried again. Index: the unique id.
SELECT max_attempts, budget_us, expires_at FROM punctual_job WHERE id = ?1;
