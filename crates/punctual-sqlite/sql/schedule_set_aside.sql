-- Sets a schedule aside that cannot be planned. By rowid.
UPDATE punctual_schedule SET stamp = ?3, set_aside = ?2 WHERE rowid = ?1;
