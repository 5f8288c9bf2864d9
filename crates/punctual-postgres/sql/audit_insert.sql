-- Notes what somebody did.
INSERT INTO {schema}.audit (at, who, why, action, subject)
VALUES (coalesce($1, clock_timestamp()), $2, $3, $4, $5);
