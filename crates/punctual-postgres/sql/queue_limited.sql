-- Which queues have a limit? Index: the primary key.
SELECT name FROM {schema}.queue WHERE name = ANY($1) AND max_running IS NOT NULL;
