-- Sets the end of a lease. Index: the primary key.
UPDATE punctual_leader SET lease_until = ?2 WHERE role = ?1;
