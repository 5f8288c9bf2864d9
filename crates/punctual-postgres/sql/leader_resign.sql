-- Ends a lease now, if it is the caller's, and turns its nonce over, so that nothing under way may
-- renew it; again is as once. Tells those who wait for the role. Index: the primary key.
WITH resigned AS (
  UPDATE {schema}.leader
  SET lease_until = CASE WHEN nonce = $4 THEN least(lease_until, coalesce($1, clock_timestamp())) ELSE lease_until END,
    nonce = $5
  WHERE role = $2 AND term = $3 AND nonce IN ($4, $5)
  RETURNING role)
SELECT pg_notify($6, $7) FROM resigned;
