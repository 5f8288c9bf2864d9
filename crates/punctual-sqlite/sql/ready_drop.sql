-- Takes one row out of the line whose job cannot be read. Index: the primary key.
DELETE FROM punctual_job_ready WHERE queue = ?1 AND kind = ?2 AND rank = ?3 AND job = ?4;
