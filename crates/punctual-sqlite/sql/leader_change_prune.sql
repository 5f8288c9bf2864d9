-- Drops old changes of leadership, in order; the newest of each role stays. Index: the primary key,
-- and leader_change_role. There are few: a role changes hands at a deploy or a crash.
DELETE FROM punctual_leader_change WHERE id IN (
  SELECT old.id FROM punctual_leader_change AS old
  WHERE old.at < ?1 AND EXISTS (
    SELECT 1 FROM punctual_leader_change AS later WHERE later.role = old.role AND later.id > old.id)
  ORDER BY old.id
  LIMIT ?2);
