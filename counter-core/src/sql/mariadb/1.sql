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
-- on that batch and when it was written; `expiry` is when a source is forgotten, if it is.
CREATE TABLE IF NOT EXISTS access_fence (
    writer   VARBINARY(32) NOT NULL PRIMARY KEY,
    kind     BIGINT        NOT NULL,
    sequence BIGINT        NOT NULL,
    remarks  MEDIUMBLOB    NOT NULL,
    written  BIGINT        NOT NULL,
    expiry   BIGINT
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

INSERT IGNORE INTO access_meta (name, value) VALUES ('version', '1');
