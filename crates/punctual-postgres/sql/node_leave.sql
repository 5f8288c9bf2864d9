-- Strikes a node off the list, unless it has jobs under lease, and says how many it has.
-- Index: job_lease_node, the primary key.
WITH held AS MATERIALIZED (SELECT count(*) AS count FROM {schema}.job_lease WHERE node = $1),
gone AS (DELETE FROM {schema}.node AS n USING held AS h WHERE n.id = $1 AND h.count = 0)
SELECT count FROM held;
