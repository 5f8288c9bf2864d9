-- Locks the queues that have a limit, in order, so that what is counted next stays true until the
-- claim is written. Index: the primary key. Waits for no row: whoever comes second finds them skipped.
SELECT name, max_running FROM {schema}.queue
WHERE name = ANY($1) AND max_running IS NOT NULL
ORDER BY name
FOR NO KEY UPDATE SKIP LOCKED;
