-- Sets a number about the schema. Index: the primary key.
INSERT INTO {schema}.meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
