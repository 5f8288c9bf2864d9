-- Gives a key that a job holds another name; a key of that name whose time is over goes.
-- Index: the primary key. One writer, so no row locks.
UPDATE OR REPLACE punctual_job_key SET key = ?3 WHERE tenant = ?1 AND key = ?2;
