-- Binary columns, for other collations take `a` for `A`, or for `a` and a blank.
-- What the store knows about itself: `version`, and the marks `data` and `writers`.
CREATE TABLE IF NOT EXISTS access_meta (
    name  VARBINARY(32)  NOT NULL PRIMARY KEY,
    value VARBINARY(200) NOT NULL
) ENGINE = InnoDB;

-- `total` is everything that the counter ever counted; `forgotten` is when it was forgotten, or 0.
CREATE TABLE IF NOT EXISTS access_counter (
    id        BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name      VARBINARY(200) NOT NULL UNIQUE,
    total     BIGINT         NOT NULL,
    forgotten BIGINT         NOT NULL
) ENGINE = InnoDB;

-- `width` is the precision in seconds; where its buckets begin later, the offset times 2^32 is added.
-- `bucket` is the start, in Unix seconds. What is written together lies together, and so does what is cleaned.
CREATE TABLE IF NOT EXISTS access_sample (
    width   BIGINT  NOT NULL,
    bucket  BIGINT  NOT NULL,
    counter BIGINT  NOT NULL,
    hits    BIGINT  NOT NULL,
    PRIMARY KEY (width, bucket, counter)
) ENGINE = InnoDB;

-- The counters that have samples of a precision, with their latest bucket.
CREATE TABLE IF NOT EXISTS access_known (
    width   BIGINT  NOT NULL,
    counter BIGINT  NOT NULL,
    latest  BIGINT  NOT NULL,
    PRIMARY KEY (width, counter)
) ENGINE = InnoDB;

-- HyperLogLogs as Redis stores them, sparse while that is shorter; `expiry` is when the bucket leaves retention.
CREATE TABLE IF NOT EXISTS access_visitors (
    width     BIGINT  NOT NULL,
    bucket    BIGINT  NOT NULL,
    counter   BIGINT  NOT NULL,
    expiry    BIGINT  NOT NULL,
    registers BLOB    NOT NULL,
    PRIMARY KEY (width, bucket, counter)
) ENGINE = InnoDB;

CREATE INDEX IF NOT EXISTS access_visitors_expiry ON access_visitors (expiry);

-- The last batch of each process (`kind` 0), or the position up to which a source is counted (1), with the remarks
-- on that batch and when it was written; `expiry` is when a source is forgotten, if it is. `incarnation` is who cut the
-- last batch of a process, and `since` the last sequence of the one before: see `StoredFence`.
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

-- The processes that know that a counter was forgotten.
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

-- A window of a counter: it begins at `start` and counts until `expiry`, from when on the row is as good as deleted.
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

-- What was counted once in a window, until the same expiry.
CREATE TABLE IF NOT EXISTS access_window_token (
    window_id BIGINT NOT NULL,
    token     BINARY(16) NOT NULL,
    expiry    BIGINT NOT NULL,
    PRIMARY KEY (window_id, token)
) ENGINE = InnoDB;

CREATE INDEX IF NOT EXISTS access_window_token_expiry ON access_window_token (expiry);

-- A counter of distinct items: `registers` is NULL while the items are kept, and `items` is how many these are.
-- The name begins with the kind.
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

-- The bins of distributions: `measure` is 1 for the time to the head of a response, 2 for that to the end of its body,
-- 3 for its size, 4 for the status of HTTP and 5 for that of gRPC. `bin` is the index of a range that ends at
-- 2^((bin + 1)/8) seconds or bytes, -32768 for zero, or a status; `expiry` is when the bucket leaves retention.
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

-- Documents, which are replaced only by who has seen the version: the state of alerts, and notes.
CREATE TABLE IF NOT EXISTS access_documents (
    name    VARBINARY(128) NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    content LONGBLOB NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO access_meta (name, value) VALUES ('version', '1');
