-- Writes a queue's settings. Index: the primary key.
INSERT INTO {schema}.queue (name, pause_who, pause_why, pause_since, pause_until, max_running)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (name) DO UPDATE
SET pause_who = excluded.pause_who, pause_why = excluded.pause_why, pause_since = excluded.pause_since,
  pause_until = excluded.pause_until, max_running = excluded.max_running;
