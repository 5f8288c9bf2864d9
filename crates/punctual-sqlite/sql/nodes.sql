-- The nodes by id, with how many jobs each has. Index: the primary key, job_lease_node.
SELECT id, name, version, queues, kinds, labels, joined_at, seen_at, seen_watch, dead_at,
  (SELECT count(*) FROM punctual_job_lease AS l WHERE l.node = n.id)
FROM punctual_node AS n ORDER BY id;
