-- Renews a term that is not over; a lapse restarts its steadiness, and so does a clock that was set
-- back behind its beginning. Index: the primary key.
UPDATE punctual_leader
SET lease_until = ?4, steady_since = CASE WHEN lease_until <= ?5 THEN ?5 ELSE min(steady_since, ?5) END
WHERE role = ?1 AND term = ?2 AND nonce = ?3
RETURNING lease_until, steady_since, node;
