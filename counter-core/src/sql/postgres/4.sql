-- Documents, which are replaced only by who has seen the version: the state of alerts, and notes.
CREATE TABLE IF NOT EXISTS access_documents (
    name    BYTEA NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    content BYTEA NOT NULL
);

UPDATE access_meta SET value = '4' WHERE name = 'version' AND value = '3';
