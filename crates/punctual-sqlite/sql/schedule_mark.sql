-- What a plan is compared with. Index: the unique id.
SELECT rowid, stamp, enabled, next_slot, last_slot, revision FROM punctual_schedule WHERE id = ?1;
