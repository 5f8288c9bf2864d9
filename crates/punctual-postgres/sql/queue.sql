-- One queue's settings. Index: the primary key. Locks them for a change.
SELECT name, pause_who, pause_why, pause_since, pause_until, max_running
FROM {schema}.queue WHERE name = $1 FOR UPDATE;
