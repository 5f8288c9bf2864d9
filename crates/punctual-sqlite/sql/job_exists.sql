-- Is there such a job? Index: the unique id.
SELECT 1 FROM punctual_job WHERE id = ?1;
