-- The numbers about the schema. Index: the primary key.
SELECT name, value FROM {schema}.meta;
