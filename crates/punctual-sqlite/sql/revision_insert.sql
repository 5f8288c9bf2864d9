-- Keeps a definition. Index: the primary key.
INSERT INTO punctual_schedule_revision (schedule, revision, spec, who, why, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6);
