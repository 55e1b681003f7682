use counter_core::{EntityCache, WindowStore};

use super::{Forum, ForumError};

const MEMBERS: [&str; 12] =
    ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gwen", "Hugo", "Ida", "Jan", "Kim", "Leo"];

const GROUPS: [&str; 2] = ["Beginners", "Operators"];

const POSTS: [(u32, &str, &str); 3] = [
    (1, "Where are views counted?", "By the layer, when the page has been answered. The page does not know."),
    (2, "Likes are few", "So each is written at once, and may be taken back."),
    (3, "Who reads this?", "Different people, by the day. Nobody knows who they are."),
];

impl<S: EntityCache + WindowStore> Forum<S> {
    /// Makes the tables, and what there is in a forum in which nobody was before.
    pub(super) async fn prepare(&self) -> Result<(), ForumError> {
        self.make_tables().await?;
        if !self.all_members().await?.is_empty() {
            return Ok(());
        }
        for name in MEMBERS {
            self.insert_member(name).await?;
        }
        for name in GROUPS {
            self.insert_group(name).await?;
        }
        for (author, title, text) in POSTS {
            self.publish(author, title, text).await?;
        }
        self.tell(1, 1, "Welcome.").await
    }
}
