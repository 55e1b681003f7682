//! Likes of a post, where each member can like a post once. A like is a row in a table of the application; the
//! number of likes is a count that is written in the same transaction.
//!
//! ```sh
//! cargo run -p counter-core --features sqlite --example likes -- sqlite:likes.db 7 anna
//! cargo run -p counter-core --features sqlite --example likes -- sqlite:likes.db 7 ben
//! cargo run -p counter-core --features sqlite --example likes -- sqlite:likes.db 7 anna
//! ```
//!
//! This prints `likes of post 7: 1`, then 2, and again 2, because Anna already likes this post.

#![expect(clippy::print_stdout, reason = "prints the result for the user")]

use std::error::Error;

use counter_core::entity::{Entities, EntityDatabase};
use counter_core::unstable::SqliteDatabase;
use counter_core::unstable::sqlx::sqlite::SqliteConnectOptions;
use counter_core::unstable::sqlx::{self, SqlitePool};
use counter_core::{MemoryStore, entity};

entity! {
    /// Counts of a post.
    enum Post: "post" {
        Likes = "likes",
    }
}

/// Adds a like, unless the member already likes the post.
async fn like(posts: &Entities<Post, SqliteDatabase>, post: u64, member: &str) -> Result<(), Box<dyn Error>> {
    let mut change = posts.database().pool().begin().await?;
    let insert = "INSERT INTO likes (post, member) VALUES (?, ?) ON CONFLICT DO NOTHING";
    let insert = sqlx::query(insert).bind(post.to_string()).bind(member).execute(&mut *change).await?;
    if insert.rows_affected() == 1 {
        let count = posts.increment_in(&mut change, post, Post::Likes, 1).await?;
        change.commit().await?;
        count.committed().await; // updates the cache
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [url, post, member] = &arguments[..] else { return Err("usage: likes DATABASE POST MEMBER".into()) };
    let post = post.parse()?;

    let options = url.parse::<SqliteConnectOptions>()?.create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await?;
    let table = "CREATE TABLE IF NOT EXISTS likes (post TEXT, member TEXT, PRIMARY KEY (post, member))";
    sqlx::query(table).execute(&pool).await?;
    let database = SqliteDatabase::new(pool);
    database.create_tables().await?;

    // A service with several instances would use a `RedisStore` as the cache.
    let posts = Entities::<Post, _>::new(database, MemoryStore::new());
    like(&posts, post, member).await?;
    println!("likes of post {post}: {}", posts.counts(&[post.into()]).await?[0].of(Post::Likes));
    Ok(())
}
