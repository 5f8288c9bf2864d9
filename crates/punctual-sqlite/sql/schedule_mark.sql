-- What a plan is compared with. Index: the unique id.
SELECT rowid, stamp, enabled, next_slot, last_slot, revision, held_queue, held_since, held_until
FROM punctual_schedule WHERE id = ?1;
