-- Removes the stored job counts. The caller holds the leader's row.
DELETE FROM {schema}.queue_count;
