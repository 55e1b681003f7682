use super::error::ForumError;
use super::{Forum, rows};

const MEMBERS: [&str; 12] =
    ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gwen", "Hugo", "Ida", "Jan", "Kim", "Leo"];

const GROUPS: [&str; 2] = ["Beginners", "Operators"];

const POSTS: [(u32, &str, &str); 3] = [
    (1, "Where are views counted?", "By the layer, when the page has been answered. The page does not know."),
    (2, "Likes are few", "So each is written at once, and may be taken back."),
    (3, "Who reads this?", "Different people, by the day. Nobody knows who they are."),
];

impl Forum {
    /// Creates the tables and the initial members, posts and groups. The content is inserted in one
    /// transaction.
    pub(super) async fn prepare(&self) -> Result<(), ForumError> {
        rows::make_tables(self.database.pool()).await?;
        let mut change = self.change().await?;
        let [first, others @ ..] = MEMBERS;
        if !rows::insert_first_member(&mut change, first).await? {
            return Ok(());
        }
        for name in others {
            rows::insert_member(&mut change, name).await?;
        }
        for name in GROUPS {
            rows::insert_group(&mut change, name).await?;
        }
        let mut published = Vec::new();
        for (author, title, text) in POSTS {
            published.push(self.publish_in(&mut change, author, title, text).await?.1);
        }
        let told = self.tell_in(&mut change, 1, 1, "Welcome.").await?;
        change.commit().await?;
        for count in published {
            count.committed().await;
        }
        told.committed().await;
        Ok(())
    }
}
