-- Declares nodes dead that have been silent for too long. There are few nodes, so no index.
UPDATE {schema}.node SET dead_at = $1 WHERE dead_at IS NULL AND seen_at < $2 RETURNING id;
