-- Drops old entries, oldest first. Index: audit_at.
DELETE FROM punctual_audit WHERE id IN (
  SELECT id FROM punctual_audit WHERE at < ?1 ORDER BY at, id LIMIT ?2);
