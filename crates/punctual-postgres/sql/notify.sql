-- Tells other processes. The commit is asynchronous: there is nothing to lose.
WITH off AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
SELECT pg_notify($1, m.text) FROM off, unnest($2::text[]) AS m(text);
