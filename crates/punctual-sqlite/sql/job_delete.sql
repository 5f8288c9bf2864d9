-- Drops a body. Index: the unique id.
DELETE FROM punctual_job WHERE id = ?1;
