-- Puts a generation of a set in force. Index: the primary key.
INSERT INTO punctual_schedule_set (name, generation) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET generation = excluded.generation;
