-- How many jobs of each queue run. Index: job_lease_node; the steps of the recursion go from node to
-- node, because an index by queue alone would cost every claim and every settle a write.
WITH RECURSIVE holder (node) AS (
  (SELECT node FROM {schema}.job_lease ORDER BY node LIMIT 1)
  UNION ALL
  SELECT (SELECT l.node FROM {schema}.job_lease AS l WHERE l.node > h.node ORDER BY l.node LIMIT 1)
  FROM holder AS h WHERE h.node IS NOT NULL)
SELECT q.name, (
  SELECT coalesce(sum((
    SELECT count(*) FROM {schema}.job_lease AS l WHERE l.node = h.node AND l.queue = q.name)), 0)
  FROM holder AS h WHERE h.node IS NOT NULL)::bigint
FROM unnest($1::text[]) AS q(name);
