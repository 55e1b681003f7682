-- How far the buckets of another store were copied, by where they start: of counts (`kind` 0) and of visitors (1).
CREATE TABLE IF NOT EXISTS access_archive (
    kind    BIGINT NOT NULL,
    width   BIGINT NOT NULL,
    copied  BIGINT NOT NULL,
    settled BIGINT NOT NULL,
    PRIMARY KEY (kind, width)
) ENGINE = InnoDB;

-- The process that does something alone, until `expiry`.
CREATE TABLE IF NOT EXISTS access_lease (
    name   VARBINARY(32) NOT NULL PRIMARY KEY,
    holder VARBINARY(32) NOT NULL,
    expiry BIGINT        NOT NULL
) ENGINE = InnoDB;

UPDATE access_meta SET value = '2' WHERE name = 'version' AND value = '1';
