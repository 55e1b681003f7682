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

UPDATE access_meta SET value = '3' WHERE name = 'version' AND value = '2';
