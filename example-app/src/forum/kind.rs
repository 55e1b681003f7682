use counter_core::entity;
use counter_core::entity::Entity;

entity! {
    /// Counts of a member.
    pub enum Member: "member" {
        /// Number of followers.
        Followers = "followers",
        /// Number of posts by the member.
        Posts = "posts",
    }
}

entity! {
    /// Counts of a group.
    pub enum Group: "group" {
        /// Number of members.
        Members = "members",
        /// Number of messages.
        Messages = "messages",
    }
}

entity! {
    /// Counts of a post.
    pub enum Post: "post" {
        /// Number of times the post was shown.
        Views = "views",
        /// Number of likes.
        Likes = "likes",
        /// Number of comments.
        Comments = "comments",
    }
}

entity! {
    /// Counts of a message in a group.
    pub enum Message: "message" {
        /// Number of likes.
        Likes = "likes",
    }
}

/// An entity whose counts are derived from tables.
pub(super) trait Summary: Entity {
    /// Table with one row per entity.
    const TABLE: &'static str;

    /// The count that changes if a member adds or removes a mark, e.g. the likes of a post.
    const MARK_COUNT: Self;

    /// Returns a query that counts the rows of this field. The entity ids are appended. Returns `None` if the
    /// count can't be derived from a table.
    fn source_query(self) -> Option<&'static str>;
}

impl Summary for Member {
    const TABLE: &'static str = "forum_member";
    const MARK_COUNT: Self = Self::Followers;

    fn source_query(self) -> Option<&'static str> {
        Some(match self {
            Self::Followers => "SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'member' AND id IN ",
            Self::Posts => "SELECT author, COUNT(*) FROM forum_post WHERE author IN ",
        })
    }
}

impl Summary for Group {
    const TABLE: &'static str = "forum_group";
    const MARK_COUNT: Self = Self::Members;

    fn source_query(self) -> Option<&'static str> {
        Some(match self {
            Self::Members => "SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'group' AND id IN ",
            Self::Messages => "SELECT home, COUNT(*) FROM forum_message WHERE home IN ",
        })
    }
}

impl Summary for Post {
    const TABLE: &'static str = "forum_post";
    const MARK_COUNT: Self = Self::Likes;

    fn source_query(self) -> Option<&'static str> {
        match self {
            Self::Views => None,
            Self::Likes => Some("SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'post' AND id IN "),
            Self::Comments => Some("SELECT post, COUNT(*) FROM forum_comment WHERE post IN "),
        }
    }
}

impl Summary for Message {
    const TABLE: &'static str = "forum_message";
    const MARK_COUNT: Self = Self::Likes;

    fn source_query(self) -> Option<&'static str> {
        Some("SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'message' AND id IN ")
    }
}
