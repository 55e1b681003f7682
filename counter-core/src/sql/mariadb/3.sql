-- The bins of distributions: `measure` is t for the time to the head of a response, b for that to the end of its body,
-- s for its size, c for the status of HTTP and g for that of gRPC. `bin` is the index of a range that ends at
-- 2^((bin + 1)/8) seconds or bytes, -32768 for zero, or a status; `expiry` is when the bucket leaves retention.
CREATE TABLE IF NOT EXISTS access_bins (
    width   BIGINT       NOT NULL,
    bucket  BIGINT       NOT NULL,
    counter BIGINT       NOT NULL,
    measure VARBINARY(1) NOT NULL,
    bin     BIGINT       NOT NULL,
    expiry  BIGINT       NOT NULL,
    hits    BIGINT       NOT NULL,
    PRIMARY KEY (width, bucket, counter, measure, bin)
) ENGINE = InnoDB;

CREATE INDEX IF NOT EXISTS access_bins_expiry ON access_bins (expiry);

UPDATE access_meta SET value = '3' WHERE name = 'version' AND value = '2';
