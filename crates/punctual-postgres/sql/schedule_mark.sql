-- What plans are compared with. Index: the primary key. Locks the schedules in the order of their ids:
-- without it, firing and operators wait for each other in a ring.
SELECT s.id, s.stamp, s.enabled, s.next_slot, s.last_slot, s.revision, s.held_queue, s.held_since,
  s.held_until
FROM {schema}.schedule AS s
WHERE s.id = ANY($1)
ORDER BY s.id
FOR NO KEY UPDATE;
