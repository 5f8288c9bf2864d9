-- Writes a queue's settings. Index: the primary key.
INSERT OR REPLACE INTO punctual_queue (name, pause_who, pause_why, pause_since, pause_until, max_running)
VALUES (?1, ?2, ?3, ?4, ?5, ?6);
