-- Sets a number about the file. Index: the primary key.
INSERT OR REPLACE INTO punctual_meta (name, value) VALUES (?1, ?2);
