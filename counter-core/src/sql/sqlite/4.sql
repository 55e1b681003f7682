-- Documents, which are replaced only by who has seen the version: the state of alerts, and notes.
CREATE TABLE IF NOT EXISTS access_documents (
    name    BLOB NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    content BLOB NOT NULL
) STRICT;

UPDATE access_meta SET value = '4' WHERE name = 'version' AND value = '3';
