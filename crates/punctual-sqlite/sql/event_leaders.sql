-- Terms that have begun, oldest first. They are few: all of them are looked at.
SELECT role, term, node, at FROM punctual_leader_change
WHERE (at, role, term) > (?1, ?2, ?3) AND at <= ?4
ORDER BY at, role, term
LIMIT ?5;
