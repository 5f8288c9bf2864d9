-- Renews a term that is not over; a lapse restarts its steadiness, and so does a clock that was set back
-- behind its beginning. Every write that needs leadership begins with this. Index: the primary key. Locks the row until the end of the transaction.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
renewed AS (
  UPDATE {schema}.leader AS l
  SET lease_until = c.now + $5 * interval '1 microsecond',
    steady_since = CASE WHEN l.lease_until <= c.now THEN c.now ELSE least(l.steady_since, c.now) END
  FROM clock AS c WHERE l.role = $2 AND l.term = $3 AND l.nonce = $4
  RETURNING l.lease_until, l.steady_since, l.node)
SELECT c.now, r.lease_until, r.steady_since, r.node FROM clock AS c LEFT JOIN renewed AS r ON true;
