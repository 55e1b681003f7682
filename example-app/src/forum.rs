//! A forum that counts posts, comments, likes, followers and group members.
//!
//! The forum tables contain the actual data. [`Entities`] stores the counts in the same database, and caches
//! them in the store. A row and its count are written in one transaction, so that they are always consistent,
//! even if a client disconnects or the process is killed.

pub(crate) mod pause;
mod error;
mod kind;
mod recount;
mod readers;
mod feed;
mod rows;
mod seed;

use counter_core::entity::{Entities, EntityCounts, EntityDatabase, EntityId, UncommittedCount};
use counter_core::unstable::SqliteDatabase;
use counter_core::unstable::sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use counter_core::unstable::sqlx::{Sqlite, SqliteConnection, SqlitePool, Transaction};
use counter_core::{AnyStore, Secret};
pub use error::ForumError;
pub use feed::Feed;
use kind::Summary;
pub use kind::{Group, Member, Message, Post};
use readers::Readers;
pub use rows::{Article, Named, Note};

/// A handle to the forum, which uses a database and a store. Clones share the same forum.
#[derive(Clone, Debug)]
pub struct Forum {
    database: SqliteDatabase,
    readers: Readers,
    members: Entities<Member, SqliteDatabase>,
    groups: Entities<Group, SqliteDatabase>,
    posts: Entities<Post, SqliteDatabase>,
    messages: Entities<Message, SqliteDatabase>,
}

/// A count that will be applied to the cache after the commit.
type Count<K> = UncommittedCount<K, SqliteDatabase>;

/// The kind of entity that a member can mark, i.e. like, follow or join.
#[derive(Clone, Copy, Debug)]
pub enum MarkTarget {
    /// A member, to follow.
    Member,
    /// A group, to join.
    Group,
    /// A post, to like.
    Post,
    /// A message, to like.
    Message,
}

impl Forum {
    /// Opens the SQLite file at this URL, e.g. `sqlite:forum.db`, and creates missing tables and content.
    /// Without a URL, the forum is kept in memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be opened or written.
    pub async fn open(address: Option<&str>, store: impl Into<AnyStore>) -> Result<Self, ForumError> {
        let store = store.into();
        let database = match address {
            Some(address) => {
                let file = address.parse::<SqliteConnectOptions>()?.create_if_missing(true);
                // With this mode, readers do not wait for writers.
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
            readers: Readers::new(store, &Secret::process_local()),
            database,
        };
        forum.prepare().await?;
        Ok(forum)
    }

    /// Sets the secret that is used to count distinct readers. It should be the same on all instances. By
    /// default, it is random, so a reader that visits another instance is counted once more.
    #[must_use]
    pub fn secret(mut self, secret: &Secret) -> Self {
        self.readers = self.readers.with_secret(secret);
        self
    }

    /// Publishes a post and returns the post id.
    ///
    /// # Errors
    ///
    /// Returns an error if the member does not exist, if a text is empty or too long, or if the database
    /// can't be written.
    pub async fn publish(&self, author: u32, title: &str, text: &str) -> Result<u32, ForumError> {
        let (title, text) = (validate_text(title)?, validate_text(text)?);
        let mut change = self.change().await?;
        let (number, count) = self.publish_in(&mut change, author, title, text).await?;
        change.commit().await?;
        count.committed().await;
        Ok(number)
    }

    /// Comments on a post.
    ///
    /// # Errors
    ///
    /// Returns an error if the member or the post does not exist, if the text is empty or too long, or if the
    /// database can't be written.
    pub async fn comment(&self, post: u32, author: u32, text: &str) -> Result<(), ForumError> {
        let text = validate_text(text)?;
        let mut change = self.change().await?;
        rows::insert_comment(&mut change, post, author, text).await?;
        let count = self.posts.increment_in(&mut change, u64::from(post), Post::Comments, 1).await?;
        change.commit().await?;
        count.committed().await;
        Ok(())
    }

    /// Posts a message in a group.
    ///
    /// # Errors
    ///
    /// Returns an error if the member or the group does not exist, if the text is empty or too long, or if
    /// the database can't be written.
    pub async fn post_message(&self, group: u32, author: u32, text: &str) -> Result<(), ForumError> {
        let text = validate_text(text)?;
        let mut change = self.change().await?;
        let count = self.post_message_in(&mut change, group, author, text).await?;
        change.commit().await?;
        count.committed().await;
        Ok(())
    }

    /// Likes, follows or joins, or undoes this if `on` is false. Setting or removing a mark twice has no
    /// effect.
    ///
    /// # Errors
    ///
    /// Returns an error if the member or the target does not exist, or if the database can't be written.
    pub async fn mark(&self, target: MarkTarget, id: u32, member: u32, on: bool) -> Result<(), ForumError> {
        match target {
            MarkTarget::Member => self.mark_in(&self.members, id, member, on).await,
            MarkTarget::Group => self.mark_in(&self.groups, id, member, on).await,
            MarkTarget::Post => self.mark_in(&self.posts, id, member, on).await,
            MarkTarget::Message => self.mark_in(&self.messages, id, member, on).await,
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
            let count = entities.increment_in(&mut change, u64::from(id), K::MARK_COUNT, by).await?;
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

    async fn post_message_in(
        &self,
        change: &mut SqliteConnection,
        group: u32,
        author: u32,
        text: &str,
    ) -> Result<Count<Group>, ForumError> {
        rows::insert_message(change, group, author, text).await?;
        Ok(self.groups.increment_in(change, u64::from(group), Group::Messages, 1).await?)
    }

    /// Starts a transaction. The first statement must be a write: otherwise, SQLite might reject a later
    /// write because the data that was read is out of date. If the transaction is dropped, it is rolled back.
    async fn change(&self) -> Result<Transaction<'static, Sqlite>, ForumError> {
        // We can't use `begin_with` and `BEGIN IMMEDIATE` here: if the future is dropped at the wrong time,
        // the transaction stays open.
        Ok(self.database.pool().begin().await?)
    }

    /// Returns the number of distinct readers of a post in the last 30 days, counted per day. Returns `None`
    /// if the store is unavailable.
    pub async fn readers_of(&self, post: u32) -> Option<u64> {
        self.readers.of(post).await
    }

    /// Returns the counts of these members, in the same order.
    ///
    /// # Errors
    ///
    /// Returns an error if a count is not cached and the database can't be read.
    pub async fn counts_of_members(&self, ids: &[u32]) -> Result<Vec<EntityCounts<Member>>, ForumError> {
        Ok(self.members.counts(&numbers(ids)).await?)
    }

    /// Returns the counts of these groups, in the same order.
    ///
    /// # Errors
    ///
    /// Returns an error if a count is not cached and the database can't be read.
    pub async fn counts_of_groups(&self, ids: &[u32]) -> Result<Vec<EntityCounts<Group>>, ForumError> {
        Ok(self.groups.counts(&numbers(ids)).await?)
    }

    /// Returns the counts of these posts, in the same order.
    ///
    /// # Errors
    ///
    /// Returns an error if a count is not cached and the database can't be read.
    pub async fn counts_of_posts(&self, ids: &[u32]) -> Result<Vec<EntityCounts<Post>>, ForumError> {
        Ok(self.posts.counts(&numbers(ids)).await?)
    }

    /// Returns the counts of these messages, in the same order.
    ///
    /// # Errors
    ///
    /// Returns an error if a count is not cached and the database can't be read.
    pub async fn counts_of_messages(&self, ids: &[u32]) -> Result<Vec<EntityCounts<Message>>, ForumError> {
        Ok(self.messages.counts(&numbers(ids)).await?)
    }
}

fn numbers(ids: &[u32]) -> Vec<EntityId> {
    ids.iter().map(|&id| u64::from(id).into()).collect()
}

/// Maximum length of a title or a text in bytes.
const MAX_TEXT_BYTES: usize = 2000;

fn validate_text(text: &str) -> Result<&str, ForumError> {
    match text.trim() {
        text if (1..=MAX_TEXT_BYTES).contains(&text.len()) => Ok(text),
        _ => Err(ForumError::InvalidText),
    }
}
