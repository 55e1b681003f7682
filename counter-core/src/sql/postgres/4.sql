-- The state of alerts, in one row: the rules that are raised, and what is still to be told.
CREATE TABLE IF NOT EXISTS access_alerts (
    id      BIGINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    content BYTEA NOT NULL
);

UPDATE access_meta SET value = '4' WHERE name = 'version' AND value = '3';
