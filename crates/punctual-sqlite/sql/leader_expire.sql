-- Ends the leases of roles whose leader is not alive, as of the last renewal. Index: the primary keys.
UPDATE punctual_leader SET lease_until = min(lease_until, renewed_at)
WHERE NOT EXISTS (SELECT 1 FROM punctual_node AS n WHERE n.id = punctual_leader.node AND n.dead_at IS NULL);
