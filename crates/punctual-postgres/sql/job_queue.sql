-- The queues of jobs. Index: the primary key of job.
SELECT j.id, j.queue
FROM unnest($1::uuid[]) AS u(id)
JOIN {schema}.job AS j ON j.id = u.id;
