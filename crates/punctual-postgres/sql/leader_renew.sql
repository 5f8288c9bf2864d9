-- Renews a term that is not over, and adds to its watched time as `rules::watched_since` says. Every write that needs leadership begins with this. Index: the primary key. Locks the row until the end of the transaction.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
renewed AS (
  UPDATE {schema}.leader AS l
  SET lease_until = c.now + $5 * interval '1 microsecond',
    renewed_at = c.now,
    watched = l.watched + CASE
      WHEN l.renewed_at BETWEEN c.now - ($5 * 3 / 2) * interval '1 microsecond' AND c.now
      THEN least($5, (extract(epoch FROM c.now - l.renewed_at) * 1000000)::bigint) ELSE 0 END
  FROM clock AS c WHERE l.role = $2 AND l.term = $3 AND l.nonce = $4
  RETURNING l.lease_until, l.watched, l.node)
SELECT c.now, r.lease_until, r.watched, r.node FROM clock AS c LEFT JOIN renewed AS r ON true;
