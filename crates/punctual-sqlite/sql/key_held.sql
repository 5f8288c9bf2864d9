-- Who holds a unique key that is in force. Index: the primary key.
SELECT job FROM punctual_job_key
WHERE tenant = ?1 AND key = ?2 AND (expires_at IS NULL OR expires_at > ?3) AND length(job) = 16;
