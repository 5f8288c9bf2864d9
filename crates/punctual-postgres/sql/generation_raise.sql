-- Puts a generation of a set in force, unless a higher one is, and tells which is. Index: the primary
-- key. Locks the set, so that whoever registers at the same time waits.
INSERT INTO {schema}.schedule_set AS s (name, generation) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET generation = greatest(s.generation, excluded.generation)
RETURNING generation;
