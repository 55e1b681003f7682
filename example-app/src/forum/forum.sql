CREATE TABLE IF NOT EXISTS forum_member (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS forum_group (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS forum_post (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    author INTEGER NOT NULL REFERENCES forum_member,
    title  TEXT NOT NULL,
    text   TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS forum_post_author ON forum_post (author);

CREATE TABLE IF NOT EXISTS forum_comment (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    post   INTEGER NOT NULL REFERENCES forum_post,
    author INTEGER NOT NULL REFERENCES forum_member,
    text   TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS forum_comment_post ON forum_comment (post);

CREATE TABLE IF NOT EXISTS forum_message (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    home   INTEGER NOT NULL REFERENCES forum_group,
    author INTEGER NOT NULL REFERENCES forum_member,
    text   TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS forum_message_home ON forum_message (home);

-- Likes, followers and group members. A member can only add one mark.
CREATE TABLE IF NOT EXISTS forum_mark (
    kind   TEXT    NOT NULL,
    id     INTEGER NOT NULL,
    member INTEGER NOT NULL REFERENCES forum_member,
    PRIMARY KEY (kind, id, member)
) STRICT, WITHOUT ROWID;
