-- How many jobs of a queue run. Index: job_lease_node; the steps of the recursion go from node to
-- node, because an index by queue alone would cost every claim and every settle a write.
WITH RECURSIVE holder (node) AS (
  SELECT min(node) FROM punctual_job_lease
  UNION ALL
  SELECT (SELECT min(l.node) FROM punctual_job_lease AS l WHERE l.node > holder.node)
  FROM holder WHERE holder.node IS NOT NULL)
SELECT coalesce(sum((
  SELECT count(*) FROM punctual_job_lease AS l WHERE l.node = holder.node AND l.queue = ?1)), 0)
FROM holder WHERE holder.node IS NOT NULL;
