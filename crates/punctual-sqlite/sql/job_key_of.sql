-- What a job needs to stand in line again: its key and what follows from its body.
-- Index: the unique id.
SELECT tenant, queue, kind, priority, max_attempts, schedule, unique_key, key_scope, key_us, payload
FROM punctual_job WHERE id = ?1;
