-- Renews a term that is not over; a lapse restarts its steadiness. Index: the primary key.
UPDATE punctual_leader
SET lease_until = ?4, steady_since = CASE WHEN lease_until <= ?5 THEN ?5 ELSE steady_since END
WHERE role = ?1 AND term = ?2 AND nonce = ?3
RETURNING lease_until, steady_since, node;
