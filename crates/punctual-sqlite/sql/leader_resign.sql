-- Ends a lease now, if it is the caller's. Index: the primary key.
UPDATE punctual_leader SET lease_until = min(lease_until, ?4)
WHERE role = ?1 AND term = ?2 AND nonce = ?3;
