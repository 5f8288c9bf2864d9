-- Drops old changes of leadership, in order; the newest of each role stays. Index: the primary key,
-- and leader_change_role. There are few: a role changes hands at a deploy or a crash.
WITH gone AS (
  DELETE FROM {schema}.leader_change WHERE ctid = ANY(ARRAY(
    SELECT old.ctid FROM {schema}.leader_change AS old
    WHERE old.at < $1 AND EXISTS (
      SELECT FROM {schema}.leader_change AS later WHERE later.role = old.role AND later.id > old.id)
    ORDER BY old.id LIMIT $2))
  RETURNING 1)
SELECT count(*) FROM gone;
