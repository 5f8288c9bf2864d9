-- Which of these leases have their own outcome, or that they were called off, written down? Asked in a
-- statement of its own, whose snapshot is newer than what the settle waited for.
-- Index: the primary keys, one partition each; without the OFFSET all ends could be read and hashed.
SELECT i.number
FROM unnest($1::uuid[], $2::uuid[], $3::smallint[]) WITH ORDINALITY AS i(job, lease, outcome, number)
WHERE (i.outcome = 1 AND EXISTS (
    SELECT FROM {schema}.job_done AS d WHERE d.job = i.job AND d.lease = i.lease AND d.outcome = 1 OFFSET 0))
  OR EXISTS (
    SELECT FROM {schema}.job_attempt AS a
    WHERE a.job = i.job AND a.lease = i.lease AND a.outcome IN (i.outcome, 3) OFFSET 0);
