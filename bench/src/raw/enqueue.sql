-- The plainest statement that writes the rows of jobs that are due at once.
WITH item AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS i(id, queue, kind, payload)),
body AS (
  INSERT INTO {schema}.job (id, tenant, owner, queue, kind, priority, max_attempts, created_at, payload)
  SELECT id, '', '', queue, kind, 0, 5, now(), payload::json FROM item)
INSERT INTO {schema}.job_ready (job, queue, rank, kind, due_at, attempt, spent, crashes, priority, flags)
SELECT id, queue, now(), kind, now(), 0, 0, 0, 0, 0 FROM item;
