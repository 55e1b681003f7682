use counter_core::unstable::sqlx::{SqliteConnection, SqlitePool, query, query_as, raw_sql};

use super::Forum;
use super::error::ForumError;
use super::kind::Summary;

/// A member or a group.
#[derive(Clone, Debug)]
pub struct Named {
    /// Member or group id.
    pub id: u32,
    /// Member or group name.
    pub name: String,
}

/// A post.
#[derive(Clone, Debug)]
pub struct Article {
    /// Post id.
    pub id: u32,
    /// Post title.
    pub title: String,
    /// Post text.
    pub text: String,
    /// Post author.
    pub author: Named,
}

/// A comment on a post, or a message in a group.
#[derive(Clone, Debug)]
pub struct Note {
    /// Comment or message id.
    pub id: u32,
    /// Comment or message text.
    pub text: String,
    /// Comment or message author.
    pub author: Named,
}

type NoteRow = (u32, String, u32, String);
type ArticleRow = (u32, String, String, u32, String);

const NAMED: &str = "SELECT id, name FROM";
const ARTICLES: &str = "SELECT forum_post.id, title, text, author, name FROM forum_post \
                        JOIN forum_member ON forum_member.id = author";

impl Forum {
    /// Returns the first 100 members.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub async fn all_members(&self) -> Result<Vec<Named>, ForumError> {
        self.all_named("forum_member").await
    }

    /// Returns the first 100 groups.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub async fn all_groups(&self) -> Result<Vec<Named>, ForumError> {
        self.all_named("forum_group").await
    }

    /// Returns the latest 100 posts.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub async fn all_posts(&self) -> Result<Vec<Article>, ForumError> {
        let latest = format!("{ARTICLES} ORDER BY forum_post.id DESC LIMIT 100");
        let rows: Vec<ArticleRow> = query_as(&latest).fetch_all(self.database.pool()).await?;
        Ok(rows.into_iter().map(article).collect())
    }

    /// Returns the member with this id.
    ///
    /// # Errors
    ///
    /// Returns an error if the member does not exist, or if the database can't be read.
    pub async fn member(&self, id: u32) -> Result<Named, ForumError> {
        self.one_named("forum_member", id).await
    }

    /// Returns the group with this id.
    ///
    /// # Errors
    ///
    /// Returns an error if the group does not exist, or if the database can't be read.
    pub async fn group(&self, id: u32) -> Result<Named, ForumError> {
        self.one_named("forum_group", id).await
    }

    /// Returns the post with this id.
    ///
    /// # Errors
    ///
    /// Returns an error if the post does not exist, or if the database can't be read.
    pub async fn post(&self, id: u32) -> Result<Article, ForumError> {
        let one = format!("{ARTICLES} WHERE forum_post.id = ?");
        let row: ArticleRow = query_as(&one).bind(id).fetch_one(self.database.pool()).await?;
        Ok(article(row))
    }

    /// Returns the latest 100 comments on a post.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub async fn comments(&self, post: u32) -> Result<Vec<Note>, ForumError> {
        self.notes("forum_comment", "post", post).await
    }

    /// Returns the latest 100 messages in a group.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub async fn messages(&self, group: u32) -> Result<Vec<Note>, ForumError> {
        self.notes("forum_message", "home", group).await
    }

    async fn all_named(&self, table: &str) -> Result<Vec<Named>, ForumError> {
        let all = format!("{NAMED} {table} ORDER BY id LIMIT 100");
        let rows: Vec<(u32, String)> = query_as(&all).fetch_all(self.database.pool()).await?;
        Ok(rows.into_iter().map(named).collect())
    }

    async fn one_named(&self, table: &str, id: u32) -> Result<Named, ForumError> {
        let one = format!("{NAMED} {table} WHERE id = ?");
        Ok(named(query_as(&one).bind(id).fetch_one(self.database.pool()).await?))
    }

    async fn notes(&self, table: &str, home: &str, id: u32) -> Result<Vec<Note>, ForumError> {
        let latest = format!(
            "SELECT {table}.id, text, author, name FROM {table} JOIN forum_member ON forum_member.id = author \
             WHERE {home} = ? ORDER BY {table}.id DESC LIMIT 100"
        );
        let rows: Vec<NoteRow> = query_as(&latest).bind(id).fetch_all(self.database.pool()).await?;
        let note = |(id, text, author, name)| Note { id, text, author: named((author, name)) };
        Ok(rows.into_iter().map(note).collect())
    }
}

/// Creates missing tables.
pub(super) async fn make_tables(pool: &SqlitePool) -> Result<(), ForumError> {
    raw_sql(include_str!("forum.sql")).execute(pool).await?;
    Ok(())
}

/// Adds the first member. Returns `false` if there already are members.
pub(super) async fn insert_first_member(
    change: &mut SqliteConnection,
    name: &str,
) -> Result<bool, ForumError> {
    let insert = "INSERT INTO forum_member (name) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM forum_member)";
    Ok(query(insert).bind(name).execute(change).await?.rows_affected() == 1)
}

pub(super) async fn insert_member(change: &mut SqliteConnection, name: &str) -> Result<(), ForumError> {
    query("INSERT INTO forum_member (name) VALUES (?)").bind(name).execute(change).await?;
    Ok(())
}

pub(super) async fn insert_group(change: &mut SqliteConnection, name: &str) -> Result<(), ForumError> {
    query("INSERT INTO forum_group (name) VALUES (?)").bind(name).execute(change).await?;
    Ok(())
}

pub(super) async fn insert_post(
    change: &mut SqliteConnection,
    author: u32,
    title: &str,
    text: &str,
) -> Result<u32, ForumError> {
    let insert = "INSERT INTO forum_post (author, title, text) VALUES (?, ?, ?) RETURNING id";
    let (id,) = query_as(insert).bind(author).bind(title).bind(text).fetch_one(change).await?;
    Ok(id)
}

pub(super) async fn insert_comment(
    change: &mut SqliteConnection,
    post: u32,
    author: u32,
    text: &str,
) -> Result<(), ForumError> {
    let insert = "INSERT INTO forum_comment (post, author, text) VALUES (?, ?, ?)";
    query(insert).bind(post).bind(author).bind(text).execute(change).await?;
    Ok(())
}

pub(super) async fn insert_message(
    change: &mut SqliteConnection,
    group: u32,
    author: u32,
    text: &str,
) -> Result<(), ForumError> {
    let insert = "INSERT INTO forum_message (home, author, text) VALUES (?, ?, ?)";
    query(insert).bind(group).bind(author).bind(text).execute(change).await?;
    Ok(())
}

/// Adds a mark, i.e. a like, a follower or a group member. Returns `false` if it already exists.
pub(super) async fn insert_mark<K: Summary>(
    change: &mut SqliteConnection,
    id: u32,
    member: u32,
) -> Result<bool, ForumError> {
    let insert = format!(
        "INSERT INTO forum_mark (kind, id, member) SELECT ?, id, ? FROM {} WHERE id = ? ON CONFLICT DO NOTHING",
        K::TABLE
    );
    let insert = query(&insert).bind(K::NAME).bind(member).bind(id);
    if insert.execute(&mut *change).await?.rows_affected() == 1 {
        return Ok(true);
    }
    let exists = format!("SELECT id FROM {} WHERE id = ?", K::TABLE);
    let _: (u32,) = query_as(&exists).bind(id).fetch_one(change).await?;
    Ok(false)
}

/// Removes a mark, i.e. a like, a follower or a group member. Returns `false` if it does not exist.
pub(super) async fn delete_mark<K: Summary>(
    change: &mut SqliteConnection,
    id: u32,
    member: u32,
) -> Result<bool, ForumError> {
    let delete = "DELETE FROM forum_mark WHERE kind = ? AND id = ? AND member = ?";
    let delete = query(delete).bind(K::NAME).bind(id).bind(member);
    Ok(delete.execute(change).await?.rows_affected() == 1)
}

fn named((id, name): (u32, String)) -> Named {
    Named { id, name }
}

fn article((id, title, text, author, name): ArticleRow) -> Article {
    Article { id, title, text, author: Named { id: author, name } }
}
