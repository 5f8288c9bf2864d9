-- Declares nodes dead whose last heartbeat is older than $2 and not later than $4 in watched time; those
-- that were last seen after $3, which is too far ahead to be true since the clock was set back, were seen now.
-- There are few nodes, so no index.
UPDATE {schema}.node
SET dead_at = CASE WHEN seen_at < $2 THEN $1 END, seen_at = CASE WHEN seen_at > $3 THEN $1 ELSE seen_at END
WHERE dead_at IS NULL AND (seen_at < $2 AND seen_watch <= $4 OR seen_at > $3)
RETURNING id, dead_at IS NOT NULL;
