-- The jobs of a node that somebody wants to stop. Index: job_lease_node.
SELECT job FROM punctual_job_lease WHERE node = ?1 AND cancel IS NOT NULL ORDER BY job;
