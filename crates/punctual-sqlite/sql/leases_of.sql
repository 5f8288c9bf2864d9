-- The jobs that a node has under lease, by id, and whether somebody wants them to stop.
-- Index: job_lease_node; there are as many as the node runs.
SELECT job, lease, cancel IS NOT NULL FROM punctual_job_lease WHERE node = ?1 ORDER BY job;
