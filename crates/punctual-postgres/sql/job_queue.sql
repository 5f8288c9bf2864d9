-- The queues of jobs. Index: the primary key of job, one partition each.
SELECT j.id, j.queue
FROM unnest($1::uuid[]) AS u(id)
CROSS JOIN LATERAL (SELECT b.id, b.queue FROM {schema}.job AS b WHERE b.id = u.id OFFSET 0) AS j;
