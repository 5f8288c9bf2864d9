-- The first jobs that a node has under these leases, by id. Index: job_lease_node, of which there are as
-- many as the node runs, then the primary key. Locks them, and passes over what is being settled.
SELECT l.job, l.lease
FROM (
  SELECT job, lease FROM (
    SELECT job, lease FROM {schema}.job_lease WHERE node = $1 AND lease = ANY($2) OFFSET 0) AS held
  ORDER BY job
  LIMIT $3) AS h
CROSS JOIN LATERAL (
  SELECT b.job, b.lease FROM {schema}.job_lease AS b
  WHERE b.job = h.job AND b.lease = h.lease
  FOR UPDATE SKIP LOCKED) AS l
ORDER BY l.job;
