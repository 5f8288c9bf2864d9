-- A number about the file. Index: the primary key.
SELECT value FROM punctual_meta WHERE name = ?1;
