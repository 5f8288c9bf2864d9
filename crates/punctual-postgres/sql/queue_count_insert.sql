-- Stores job counts by queue and kind. The caller has removed the earlier ones in the same transaction.
INSERT INTO {schema}.queue_count
  (queue, kind, ready, scheduled, retrying, blocked, running, failed, oldest_due_at, counted_at)
SELECT queue, kind, ready, scheduled, retrying, blocked, running, failed, oldest_due_at, $10
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::bigint[], $9::timestamptz[])
  AS u(queue, kind, ready, scheduled, retrying, blocked, running, failed, oldest_due_at);
