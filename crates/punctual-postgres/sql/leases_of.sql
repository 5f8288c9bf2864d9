-- The first jobs that a node has under leases other than those to keep, by id. Index: job_lease_node;
-- there are as many as the node runs. Locks them, and passes over what is being settled.
SELECT job, lease FROM {schema}.job_lease
WHERE node = $1 AND lease <> ALL($2)
ORDER BY job
LIMIT $3
FOR UPDATE SKIP LOCKED;
