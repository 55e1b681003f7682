//! A forum: members write, like, follow and join, and everything of it is counted.
//!
//! The forum's own tables have the truth, row by row; [`Entities`] have the counts of these rows, in the same
//! database, with copies in the store. A row and its count are written in one transaction: a client that
//! hangs up, or a process that is killed, leaves both or neither.

pub(crate) mod pause;
mod error;
mod kind;
mod recount;
mod readers;
mod feed;
mod rows;
mod seed;

use counter_core::entity::sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use counter_core::entity::sqlx::{Sqlite, SqliteConnection, SqlitePool, Transaction};
use counter_core::entity::{
    Entities, EntityCounts, EntityDatabase, EntityId, SqliteDatabase, UncommittedCount,
};
use counter_core::{AnyStore, Secret};

pub use error::ForumError;
pub use feed::Feed;
pub use kind::{Group, Member, Message, Post};
pub use rows::{Article, Named, Note};

use kind::Summary;
use readers::Readers;

/// The forum, over its database and a store; cloning gives another handle on the same.
#[derive(Clone, Debug)]
pub struct Forum {
    database: SqliteDatabase,
    readers: Readers,
    members: Entities<Member, SqliteDatabase>,
    groups: Entities<Group, SqliteDatabase>,
    posts: Entities<Post, SqliteDatabase>,
    messages: Entities<Message, SqliteDatabase>,
}

/// A count of which the cache hears after the commit.
type Count<K> = UncommittedCount<K, SqliteDatabase>;

/// A thing that a member can put a mark on.
#[derive(Clone, Copy, Debug)]
pub enum Marked {
    /// A member, whom somebody follows.
    Member,
    /// A group, which somebody joins.
    Group,
    /// A post, which somebody likes.
    Post,
    /// A message, which somebody likes.
    Message,
}

impl Forum {
    /// Opens the file of this address, such as `sqlite:forum.db`, and makes what is missing in it; or a forum
    /// that lives in the process.
    ///
    /// # Errors
    /// When it cannot be opened or written.
    pub async fn open(address: Option<&str>, store: impl Into<AnyStore>) -> Result<Self, ForumError> {
        let store = store.into();
        let database = match address {
            Some(address) => {
                let file = address.parse::<SqliteConnectOptions>()?.create_if_missing(true);
                // Readers do not wait for writers.
                let file = file.journal_mode(SqliteJournalMode::Wal);
                SqliteDatabase::new(SqlitePool::connect_with(file).await?)
            }
            None => SqliteDatabase::in_memory().await?,
        };
        database.create_tables().await?;
        let forum = Self {
            members: Entities::new(database.clone(), store.clone()),
            groups: Entities::new(database.clone(), store.clone()),
            posts: Entities::new(database.clone(), store.clone()),
            messages: Entities::new(database.clone(), store.clone()),
            readers: Readers::new(store, &Secret::of_this_process()),
            database,
        };
        forum.prepare().await?;
        Ok(forum)
    }

    /// Tells readers of posts apart under this secret, as all instances do that have it; without it, each has its
    /// own, and a reader that comes to several of them counts several times.
    #[must_use]
    pub fn secret(mut self, secret: &Secret) -> Self {
        self.readers = self.readers.under(secret);
        self
    }

    /// Publishes a post; answers with its number.
    ///
    /// # Errors
    /// When there is no such member, a text is empty or too long, or it cannot be written.
    pub async fn publish(&self, author: u32, title: &str, text: &str) -> Result<u32, ForumError> {
        let (title, text) = (checked(title)?, checked(text)?);
        let mut change = self.change().await?;
        let (number, count) = self.publish_in(&mut change, author, title, text).await?;
        change.commit().await?;
        count.committed().await;
        Ok(number)
    }

    /// Comments on a post.
    ///
    /// # Errors
    /// When there is no such member or post, the text is empty or too long, or it cannot be written.
    pub async fn comment(&self, post: u32, author: u32, text: &str) -> Result<(), ForumError> {
        let text = checked(text)?;
        let mut change = self.change().await?;
        rows::insert_comment(&mut change, post, author, text).await?;
        let count = self.posts.increment_in(&mut change, u64::from(post), Post::Comments, 1).await?;
        change.commit().await?;
        count.committed().await;
        Ok(())
    }

    /// Leaves a message in a group.
    ///
    /// # Errors
    /// When there is no such member or group, the text is empty or too long, or it cannot be written.
    pub async fn tell(&self, group: u32, author: u32, text: &str) -> Result<(), ForumError> {
        let text = checked(text)?;
        let mut change = self.change().await?;
        let count = self.tell_in(&mut change, group, author, text).await?;
        change.commit().await?;
        count.committed().await;
        Ok(())
    }

    /// Likes, follows or joins, or takes that back. A member that has done so already changes nothing.
    ///
    /// # Errors
    /// When there is no such member, or none of what is marked, or it cannot be written.
    pub async fn mark(&self, what: Marked, id: u32, member: u32, on: bool) -> Result<(), ForumError> {
        match what {
            Marked::Member => self.mark_in(&self.members, id, member, on).await,
            Marked::Group => self.mark_in(&self.groups, id, member, on).await,
            Marked::Post => self.mark_in(&self.posts, id, member, on).await,
            Marked::Message => self.mark_in(&self.messages, id, member, on).await,
        }
    }

    async fn mark_in<K: Summary>(
        &self,
        entities: &Entities<K, SqliteDatabase>,
        id: u32,
        member: u32,
        on: bool,
    ) -> Result<(), ForumError> {
        let mut change = self.change().await?;
        let changed = if on {
            rows::insert_mark::<K>(&mut change, id, member).await?
        } else {
            rows::delete_mark::<K>(&mut change, id, member).await?
        };
        if changed {
            let by = if on { 1 } else { -1 };
            let count = entities.increment_in(&mut change, u64::from(id), K::MARKED, by).await?;
            change.commit().await?;
            count.committed().await;
        }
        Ok(())
    }

    async fn publish_in(
        &self,
        change: &mut SqliteConnection,
        author: u32,
        title: &str,
        text: &str,
    ) -> Result<(u32, Count<Member>), ForumError> {
        let number = rows::insert_post(change, author, title, text).await?;
        Ok((number, self.members.increment_in(change, u64::from(author), Member::Posts, 1).await?))
    }

    async fn tell_in(
        &self,
        change: &mut SqliteConnection,
        group: u32,
        author: u32,
        text: &str,
    ) -> Result<Count<Group>, ForumError> {
        rows::insert_message(change, group, author, text).await?;
        Ok(self.groups.increment_in(change, u64::from(group), Group::Messages, 1).await?)
    }

    /// Begins a transaction, of which the first statement has to write: one that reads first may be out of
    /// date when it writes, and is refused then. Dropped without a commit, it leaves nothing.
    async fn change(&self) -> Result<Transaction<'static, Sqlite>, ForumError> {
        // Not `BEGIN IMMEDIATE` by `begin_with`: dropped at a bad moment, that leaves the transaction open.
        Ok(self.database.pool().begin().await?)
    }

    /// The number of different readers of a post in the last 30 days, those of each day by themselves; `None`
    /// while the store does not say.
    pub async fn readers_of(&self, post: u32) -> Option<u64> {
        self.readers.of(post).await
    }

    /// The counts of these members, in their order.
    ///
    /// # Errors
    /// When neither store nor database can be read; so with the others.
    pub async fn counts_of_members(&self, ids: &[u32]) -> Result<Vec<EntityCounts<Member>>, ForumError> {
        Ok(self.members.counts(&numbers(ids)).await?)
    }

    /// The counts of these groups.
    ///
    /// # Errors
    /// As above.
    pub async fn counts_of_groups(&self, ids: &[u32]) -> Result<Vec<EntityCounts<Group>>, ForumError> {
        Ok(self.groups.counts(&numbers(ids)).await?)
    }

    /// The counts of these posts.
    ///
    /// # Errors
    /// As above.
    pub async fn counts_of_posts(&self, ids: &[u32]) -> Result<Vec<EntityCounts<Post>>, ForumError> {
        Ok(self.posts.counts(&numbers(ids)).await?)
    }

    /// The counts of these messages.
    ///
    /// # Errors
    /// As above.
    pub async fn counts_of_messages(&self, ids: &[u32]) -> Result<Vec<EntityCounts<Message>>, ForumError> {
        Ok(self.messages.counts(&numbers(ids)).await?)
    }
}

fn numbers(ids: &[u32]) -> Vec<EntityId> {
    ids.iter().map(|&id| u64::from(id).into()).collect()
}

/// Most bytes of a title or a text.
const LONGEST: usize = 2000;

fn checked(text: &str) -> Result<&str, ForumError> {
    match text.trim() {
        text if (1..=LONGEST).contains(&text.len()) => Ok(text),
        _ => Err(ForumError::NoText),
    }
}
