-- What time it is, and for each job: is it there already, and who holds its unique key? Not locking:
-- taking the key decides. Index: the primary keys, one partition each; without the OFFSET all jobs and keys could
-- be read and hashed.
SELECT c.now, i.number, EXISTS (SELECT FROM {schema}.job AS j WHERE j.id = i.id OFFSET 0), k.job, k.hash, k.expires_at
FROM (SELECT coalesce($1, clock_timestamp()) AS now) AS c
LEFT JOIN unnest($2::uuid[], $3::text[], $4::text[]) WITH ORDINALITY AS i(id, tenant, key, number) ON true
LEFT JOIN LATERAL (
  SELECT x.job, x.hash, x.expires_at FROM {schema}.job_key AS x
  WHERE x.tenant = i.tenant AND x.key = i.key OFFSET 0) AS k ON true;
