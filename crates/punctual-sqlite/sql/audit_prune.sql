-- Drops old entries. Index: audit_at.
DELETE FROM punctual_audit WHERE at < ?1;
