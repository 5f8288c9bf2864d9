-- Deletes a start deadline that was checked. Index: the primary key.
DELETE FROM punctual_job_deadline WHERE check_at = ?1 AND job = ?2;
