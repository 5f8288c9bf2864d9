-- The nodes that are alive, by id, as they told of themselves. Index: the primary key.
SELECT id, name, version, queues::text, kinds::text, labels::text FROM {schema}.node WHERE dead_at IS NULL ORDER BY id;
