-- Writes a decided slot. Index: the primary key, which holds that a slot is decided once.
INSERT INTO punctual_slot (schedule, slot, run, slot_end, count, outcome, reason, job, term, node, revision, decided_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);
