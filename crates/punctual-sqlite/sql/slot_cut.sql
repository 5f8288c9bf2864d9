-- Shortens a row of the ledger. Index: the primary key.
UPDATE punctual_slot SET slot_end = ?3, count = ?4 WHERE schedule = ?1 AND slot = ?2 AND run = 0;
