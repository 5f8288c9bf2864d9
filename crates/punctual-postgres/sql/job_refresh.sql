-- A requeued job expires no more, and its budget is whole. Index: the primary key, one partition.
UPDATE {schema}.job SET expires_at = NULL, fresh_after = $2 WHERE id = $1;
