-- How many jobs a node has under lease. Index: job_lease_node.
SELECT count(*) FROM punctual_job_lease WHERE node = ?1;
