-- Queues that have a setting, by name. Index: the primary key.
SELECT name, pause_who, pause_why, pause_since, pause_until, max_running
FROM {schema}.queue ORDER BY name;
