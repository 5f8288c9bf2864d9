-- Strikes nodes off the list that have long been dead and hold no job. Index: job_lease_node.
DELETE FROM punctual_node
WHERE dead_at < ?1 AND NOT EXISTS (SELECT 1 FROM punctual_job_lease AS l WHERE l.node = punctual_node.id);
