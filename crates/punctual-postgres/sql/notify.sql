-- Wakes whoever waits for jobs of these queues. The commit is asynchronous: there is nothing to lose.
WITH off AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
SELECT pg_notify($1, q.name) FROM off, unnest($2::text[]) AS q(name);
