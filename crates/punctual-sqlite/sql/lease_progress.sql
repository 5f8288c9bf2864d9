-- Notes how far an attempt has come. Index: the primary key.
UPDATE punctual_job_lease SET progress_at = ?3, progress_percent = ?4, progress_note = ?5
WHERE job = ?1 AND lease = ?2;
