use counter_core::entity;
use counter_core::entity::Entity;

entity! {
    /// Counts of a member.
    pub enum Member: "member" {
        /// Members who follow.
        Followers = "followers",
        /// Posts that were written.
        Posts = "posts",
    }
}

entity! {
    /// Counts of a group.
    pub enum Group: "group" {
        /// Members who joined.
        Members = "members",
        /// Messages in it.
        Messages = "messages",
    }
}

entity! {
    /// Counts of a post.
    pub enum Post: "post" {
        /// Times that it was shown.
        Views = "views",
        /// Members who like it.
        Likes = "likes",
        /// Comments on it.
        Comments = "comments",
    }
}

entity! {
    /// Counts of a message in a group.
    pub enum Message: "message" {
        /// Members who like it.
        Likes = "likes",
    }
}

/// A kind whose counts are summaries of tables.
pub(super) trait Summary: Entity {
    /// The table that has a row for each of the kind.
    const TABLE: &'static str;

    /// What members may put a mark on, and take it away again.
    const MARKED: Self;

    /// The rows that this is the count of, of those entities whose numbers follow; `None` where the count is
    /// all that is known.
    fn truth(self) -> Option<&'static str>;
}

impl Summary for Member {
    const TABLE: &'static str = "forum_member";
    const MARKED: Self = Self::Followers;

    fn truth(self) -> Option<&'static str> {
        Some(match self {
            Self::Followers => "SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'member' AND id IN ",
            Self::Posts => "SELECT author, COUNT(*) FROM forum_post WHERE author IN ",
        })
    }
}

impl Summary for Group {
    const TABLE: &'static str = "forum_group";
    const MARKED: Self = Self::Members;

    fn truth(self) -> Option<&'static str> {
        Some(match self {
            Self::Members => "SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'group' AND id IN ",
            Self::Messages => "SELECT home, COUNT(*) FROM forum_message WHERE home IN ",
        })
    }
}

impl Summary for Post {
    const TABLE: &'static str = "forum_post";
    const MARKED: Self = Self::Likes;

    fn truth(self) -> Option<&'static str> {
        match self {
            Self::Views => None,
            Self::Likes => Some("SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'post' AND id IN "),
            Self::Comments => Some("SELECT post, COUNT(*) FROM forum_comment WHERE post IN "),
        }
    }
}

impl Summary for Message {
    const TABLE: &'static str = "forum_message";
    const MARKED: Self = Self::Likes;

    fn truth(self) -> Option<&'static str> {
        Some("SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'message' AND id IN ")
    }
}
