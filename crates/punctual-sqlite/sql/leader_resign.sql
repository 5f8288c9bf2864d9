-- Ends a lease now, if it is the caller's, and turns its nonce over, so that nothing under way may
-- renew it; again is as once. Index: the primary key.
UPDATE punctual_leader
SET lease_until = CASE WHEN nonce = ?3 THEN min(lease_until, ?4) ELSE lease_until END, nonce = ?5
WHERE role = ?1 AND term = ?2 AND nonce IN (?3, ?5);
