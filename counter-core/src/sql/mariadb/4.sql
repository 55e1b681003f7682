-- Documents, which are replaced only by who has seen the version: the state of alerts, and notes.
CREATE TABLE IF NOT EXISTS access_documents (
    name    VARBINARY(128) NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    content LONGBLOB NOT NULL
) ENGINE = InnoDB;

UPDATE access_meta SET value = '4' WHERE name = 'version' AND value = '3';
