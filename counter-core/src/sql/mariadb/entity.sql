-- Binary columns, because other collations treat `a` like `A`, or like `a` followed by a blank.
CREATE TABLE IF NOT EXISTS access_entity (
    kind    VARBINARY(32) NOT NULL,
    entity  VARBINARY(63) NOT NULL,
    field   VARBINARY(32) NOT NULL,
    value   BIGINT        NOT NULL,
    version BIGINT        NOT NULL,
    PRIMARY KEY (kind, entity, field)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS access_entity_fence (
    writer   VARBINARY(32) NOT NULL PRIMARY KEY,
    sequence BIGINT        NOT NULL,
    refused  BIGINT        NOT NULL,
    written  BIGINT        NOT NULL
) ENGINE = InnoDB;
