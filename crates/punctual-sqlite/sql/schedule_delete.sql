-- Removes a schedule. Index: the unique id.
DELETE FROM punctual_schedule WHERE id = ?1;
