use super::error::ForumError;
use super::{Forum, rows};

const MEMBERS: [&str; 12] =
    ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gwen", "Hugo", "Ida", "Jan", "Kim", "Leo"];

const GROUPS: [&str; 2] = ["Beginners", "Operators"];

const POSTS: [(u32, &str, &str); 3] = [
    (1, "Where are views counted?", "In the layer, after the response. Handlers need no extra code."),
    (2, "How are likes counted?", "Each like is written immediately, and can be taken back."),
    (3, "Who reads this?", "Distinct readers are counted per day. They stay anonymous."),
];

impl Forum {
    /// Creates the tables and the initial members, posts and groups. The content is inserted in one
    /// transaction.
    pub(super) async fn prepare(&self) -> Result<(), ForumError> {
        rows::make_tables(self.database.pool()).await?;
        let mut change = self.change().await?;
        let [first, rest @ ..] = MEMBERS;
        if !rows::insert_first_member(&mut change, first).await? {
            return Ok(());
        }
        for name in rest {
            rows::insert_member(&mut change, name).await?;
        }
        for name in GROUPS {
            rows::insert_group(&mut change, name).await?;
        }
        let mut published = Vec::new();
        for (author, title, text) in POSTS {
            published.push(self.publish_in(&mut change, author, title, text).await?.1);
        }
        let message = self.post_message_in(&mut change, 1, 1, "Welcome.").await?;
        change.commit().await?;
        for count in published {
            count.committed().await;
        }
        message.committed().await;
        Ok(())
    }
}
