-- Notes what somebody did.
INSERT INTO punctual_audit (at, who, why, action, subject) VALUES (?1, ?2, ?3, ?4, ?5);
