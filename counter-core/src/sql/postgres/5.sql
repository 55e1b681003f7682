-- Who cut the last batch of a process, and the last sequence of the one before: see `StoredFence`.
ALTER TABLE access_fence ADD COLUMN IF NOT EXISTS incarnation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE access_fence ADD COLUMN IF NOT EXISTS since BIGINT NOT NULL DEFAULT 0;

UPDATE access_meta SET value = '5' WHERE name = 'version' AND value = '4';
