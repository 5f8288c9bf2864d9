-- Declares nodes dead that have been silent since before $2, if anybody may be by now; those that were
-- last seen after $3, which is too far ahead to be true since the clock was set back, were seen now.
-- There are few nodes, so no index.
UPDATE {schema}.node
SET dead_at = CASE WHEN seen_at < $2 THEN $1 END, seen_at = CASE WHEN seen_at > $3 THEN $1 ELSE seen_at END
WHERE dead_at IS NULL AND (seen_at < $2 OR seen_at > $3)
RETURNING id, dead_at IS NOT NULL;
