-- The state of alerts, in one row: the rules that are raised, and what is still to be told.
CREATE TABLE IF NOT EXISTS access_alerts (
    id      INTEGER NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    content BLOB NOT NULL
) STRICT;

UPDATE access_meta SET value = '4' WHERE name = 'version' AND value = '3';
