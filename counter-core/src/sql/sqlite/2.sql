-- How far the buckets of another store were copied, by where they start: of counts (`kind` 0) and of visitors (1).
CREATE TABLE IF NOT EXISTS access_archive (
    kind    INTEGER NOT NULL,
    width   INTEGER NOT NULL,
    copied  INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    PRIMARY KEY (kind, width)
) STRICT, WITHOUT ROWID;

-- The process that does something alone, until `expiry`.
CREATE TABLE IF NOT EXISTS access_lease (
    name   TEXT    NOT NULL PRIMARY KEY,
    holder TEXT    NOT NULL,
    expiry INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

UPDATE access_meta SET value = '2' WHERE name = 'version' AND value = '1';
