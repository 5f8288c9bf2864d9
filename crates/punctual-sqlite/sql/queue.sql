-- One queue's settings. Index: the primary key.
SELECT name, pause_who, pause_why, pause_since, pause_until, max_running
FROM punctual_queue WHERE name = ?1;
