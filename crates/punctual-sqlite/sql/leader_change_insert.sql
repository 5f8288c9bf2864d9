-- Notes the beginning of a term.
INSERT INTO punctual_leader_change (role, term, node, at) VALUES (?1, ?2, ?3, ?4);
