-- Gives a schedule another name or set. Index: the unique id.
UPDATE punctual_schedule SET name = ?2, set_name = ?3, stamp = ?4, changed_at = ?5 WHERE id = ?1;
