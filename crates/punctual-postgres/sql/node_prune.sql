-- Strikes nodes off the list that have long been dead and hold no job. Index: job_lease_node.
WITH gone AS (
  DELETE FROM {schema}.node AS n
  WHERE n.dead_at < $1 AND NOT EXISTS (SELECT FROM {schema}.job_lease AS l WHERE l.node = n.id OFFSET 0)
  RETURNING 1)
SELECT count(*) FROM gone;
