-- Who cut the last batch of a process, and the last sequence of the one before: see `StoredFence`. SQLite cannot add a
-- column only if it is missing, so the table is copied: a step may be repeated.
DROP TABLE IF EXISTS access_fence_5;
CREATE TABLE access_fence_5 (
    writer      TEXT    NOT NULL PRIMARY KEY,
    kind        INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    remarks     TEXT    NOT NULL,
    written     INTEGER NOT NULL,
    expiry      INTEGER,
    incarnation INTEGER NOT NULL DEFAULT 0,
    since       INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
INSERT INTO access_fence_5 (writer, kind, sequence, remarks, written, expiry)
    SELECT writer, kind, sequence, remarks, written, expiry FROM access_fence;
DROP TABLE access_fence;
ALTER TABLE access_fence_5 RENAME TO access_fence;

UPDATE access_meta SET value = '5' WHERE name = 'version' AND value = '4';
