-- The end of a role's lease. Index: the primary key.
SELECT lease_until FROM punctual_leader WHERE role = ?1;
