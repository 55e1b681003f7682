-- Binary columns, because other collations treat `a` like `A`, or like `a` followed by a blank.
--
-- Store metadata: `version`, and the markers `data` and `writers`.
CREATE TABLE IF NOT EXISTS access_meta (
    name  VARBINARY(32)  NOT NULL PRIMARY KEY,
    value VARBINARY(200) NOT NULL
) ENGINE = InnoDB;

-- `total` is the number of hits ever counted; `forgotten` is the time at which the counter was forgotten, or
-- 0.
CREATE TABLE IF NOT EXISTS access_counter (
    id        BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name      VARBINARY(200) NOT NULL UNIQUE,
    total     BIGINT         NOT NULL,
    forgotten BIGINT         NOT NULL
) ENGINE = InnoDB;

-- `width` is the precision in seconds, plus the offset times 2^32 if buckets are shifted. `bucket` is the
-- start in Unix seconds. The key order clusters the rows that are written or cleaned up in the same batch.
CREATE TABLE IF NOT EXISTS access_sample (
    width   BIGINT  NOT NULL,
    bucket  BIGINT  NOT NULL,
    counter BIGINT  NOT NULL,
    hits    BIGINT  NOT NULL,
    PRIMARY KEY (width, bucket, counter)
) ENGINE = InnoDB;

-- Counters that have samples for a precision, with the latest bucket.
CREATE TABLE IF NOT EXISTS access_known (
    width   BIGINT  NOT NULL,
    counter BIGINT  NOT NULL,
    latest  BIGINT  NOT NULL,
    PRIMARY KEY (width, counter)
) ENGINE = InnoDB;

-- HyperLogLogs in Redis encoding, sparse if this is shorter; `expiry` is the end of retention for the bucket.
CREATE TABLE IF NOT EXISTS access_visitors (
    width     BIGINT  NOT NULL,
    bucket    BIGINT  NOT NULL,
    counter   BIGINT  NOT NULL,
    expiry    BIGINT  NOT NULL,
    registers BLOB    NOT NULL,
    PRIMARY KEY (width, bucket, counter)
) ENGINE = InnoDB;

CREATE INDEX IF NOT EXISTS access_visitors_expiry ON access_visitors (expiry);

-- The latest batch per process (`kind` 0), or the counted position of a source (1), with the remarks for this
-- batch and the time at which it was written. `expiry` is the time at which a source is forgotten, if any.
-- `incarnation` identifies the process run that cut the latest batch, and `since` is the last sequence of the
-- previous run: see `StoredFence`.
CREATE TABLE IF NOT EXISTS access_fence (
    writer      VARBINARY(32) NOT NULL PRIMARY KEY,
    kind        BIGINT        NOT NULL,
    sequence    BIGINT        NOT NULL,
    remarks     MEDIUMBLOB    NOT NULL,
    written     BIGINT        NOT NULL,
    expiry      BIGINT,
    incarnation BIGINT        NOT NULL DEFAULT 0,
    since       BIGINT        NOT NULL DEFAULT 0
) ENGINE = InnoDB;

-- Processes that have been notified of a forgotten counter.
CREATE TABLE IF NOT EXISTS access_told (
    counter BIGINT  NOT NULL,
    writer  VARBINARY(32) NOT NULL,
    PRIMARY KEY (counter, writer)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS access_salt (
    width  BIGINT  NOT NULL,
    bucket BIGINT  NOT NULL,
    salt   BINARY(16) NOT NULL,
    expiry BIGINT  NOT NULL,
    PRIMARY KEY (width, bucket)
) ENGINE = InnoDB;

-- A counter window: it starts at `start` and counts until `expiry`. Expired rows are treated as deleted.
CREATE TABLE IF NOT EXISTS access_window (
    id      BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    counter VARBINARY(2000) NOT NULL,
    width   BIGINT NOT NULL,
    start   BIGINT NOT NULL,
    hits    BIGINT NOT NULL,
    expiry  BIGINT NOT NULL,
    UNIQUE (counter, width, start)
) ENGINE = InnoDB;

CREATE INDEX IF NOT EXISTS access_window_expiry ON access_window (expiry);

-- Tokens already counted in a window, with the same expiry.
CREATE TABLE IF NOT EXISTS access_window_token (
    window_id BIGINT NOT NULL,
    token     BINARY(16) NOT NULL,
    expiry    BIGINT NOT NULL,
    PRIMARY KEY (window_id, token)
) ENGINE = InnoDB;

CREATE INDEX IF NOT EXISTS access_window_token_expiry ON access_window_token (expiry);

-- Counters for distinct items: `registers` is NULL as long as the items are stored, and `items` is the number
-- of stored items. The name starts with the kind.
CREATE TABLE IF NOT EXISTS access_unique (
    id        BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name      VARBINARY(220) NOT NULL UNIQUE,
    items     BIGINT NOT NULL,
    registers BLOB
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS access_unique_item (
    counter BIGINT NOT NULL,
    item    VARBINARY(256) NOT NULL,
    PRIMARY KEY (counter, item)
) ENGINE = InnoDB;

-- Progress of copying buckets from another store, as bucket starts: for counts (`kind` 0) and visitors (1).
CREATE TABLE IF NOT EXISTS access_archive (
    kind    BIGINT NOT NULL,
    width   BIGINT NOT NULL,
    copied  BIGINT NOT NULL,
    settled BIGINT NOT NULL,
    PRIMARY KEY (kind, width)
) ENGINE = InnoDB;

-- The process that holds an exclusive lease, until `expiry`.
CREATE TABLE IF NOT EXISTS access_lease (
    name   VARBINARY(32) NOT NULL PRIMARY KEY,
    holder VARBINARY(32) NOT NULL,
    expiry BIGINT        NOT NULL
) ENGINE = InnoDB;

-- Distribution bins: `measure` is 1 for the time to the response head, 2 for the time to the end of the body,
-- 3 for the response size, 4 for the HTTP status and 5 for the gRPC status. `bin` is the index of a range
-- that ends at 2^((bin + 1)/8) seconds or bytes, -32768 for zero, or a status; `expiry` is the end of
-- retention for the bucket.
CREATE TABLE IF NOT EXISTS access_bins (
    width   BIGINT NOT NULL,
    bucket  BIGINT NOT NULL,
    counter BIGINT NOT NULL,
    measure BIGINT NOT NULL,
    bin     BIGINT NOT NULL,
    expiry  BIGINT NOT NULL,
    hits    BIGINT NOT NULL,
    PRIMARY KEY (width, bucket, counter, measure, bin)
) ENGINE = InnoDB;

CREATE INDEX IF NOT EXISTS access_bins_expiry ON access_bins (expiry);

-- Documents, i.e. the alert state and notes. They are replaced via compare-and-swap on the version.
CREATE TABLE IF NOT EXISTS access_documents (
    name    VARBINARY(128) NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    content LONGBLOB NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO access_meta (name, value) VALUES ('version', '6');
