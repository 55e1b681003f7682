//! The stores that the contracts run on, each with its servers.
//!
//! A fact is a function that takes a store. The macro `on!` below makes a test of it on each store, whose name is the path of
//! the file, the store and the fact. So a search for the name finds the function, and these run the tests of one fact of
//! `visits/contract.rs`, on one store, on all, and all facts on one store:
//!
//! ```text
//! cargo test -p tests --test suite -- visits::contract::redis::a_batch_sent_again_counts_once
//! cargo test -p tests --test suite -- a_batch_sent_again_counts_once
//! cargo test -p tests --test suite -- visits::contract::redis::
//! ```
//!
//! An editor with rust-analyzer offers the tests at the name of the fact in the list of `on!`.

use std::sync::Arc;

use counter_core::stores::Shards;
use counter_core::{MemoryStore, RedisStore, SqlStore};
use tempfile::TempDir;
use tests::{MariaDb, Postgres, RedisCluster, RedisServer};

use crate::support::store;

/// Makes a test of each fact on each of these stores: `on! { [memory redis] { fact another_fact } }`. With
/// `then function;` before the facts, the function looks at the servers after each test.
macro_rules! on {
    ([$($kind:ident)*] $facts:tt) => {
        crate::stores::on! { [$($kind)*] then crate::stores::leave; $facts }
    };
    ([$($kind:ident)*] then $look:path; $facts:tt) => {
        $( crate::stores::on! { @ $kind $look; $facts } )*
    };
    (@ $kind:ident $look:path; { $($fact:ident)* }) => {
        mod $kind {
            $(
                #[tokio::test]
                async fn $fact() {
                    let (servers, store) = crate::stores::$kind().await;
                    super::$fact(store).await;
                    $look(&servers);
                }
            )*
        }
    };
}

pub(crate) use on;

pub(crate) async fn memory() -> ((), MemoryStore) {
    ((), MemoryStore::new())
}

pub(crate) async fn redis() -> (RedisServer, RedisStore) {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    (server, store)
}

pub(crate) async fn redis_without_scripts() -> (RedisServer, RedisStore) {
    let server = without_scripts();
    let store = store(&server.url()).await;
    assert!(!store.server().await.expect("it answers").scripts);
    (server, store)
}

pub(crate) async fn redis_in_shards() -> (RedisServer, RedisStore) {
    let server = RedisServer::start();
    let builder = RedisStore::builder().shards(Shards::try_from(16).expect("a good number"));
    let store = builder.connect(&server.url()).await.expect("an address");
    (server, store)
}

pub(crate) async fn cluster() -> (RedisCluster, RedisStore) {
    let cluster = RedisCluster::start();
    let store = store(&cluster.url()).await;
    (cluster, store)
}

pub(crate) async fn sqlite() -> (TempDir, SqlStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = sql(&format!("sqlite:{}", folder.path().join("counts.db").display())).await;
    (folder, store)
}

pub(crate) async fn sqlite_in_memory() -> ((), SqlStore) {
    ((), sql("sqlite::memory:").await)
}

pub(crate) async fn postgres() -> (Arc<Postgres>, SqlStore) {
    let server = Postgres::shared();
    let store = sql(&server.database()).await;
    (server, store)
}

pub(crate) async fn mariadb() -> (Arc<MariaDb>, SqlStore) {
    let server = MariaDb::shared();
    let store = sql(&server.database()).await;
    (server, store)
}

/// A store in an empty database.
pub(crate) async fn sql(url: &str) -> SqlStore {
    SqlStore::builder().create_tables().connect(url).await.expect("a database")
}

/// An empty database in each of the servers, and in a file; they are there as long as the first of both is kept.
pub(crate) fn databases() -> (impl Sized, [String; 3]) {
    let (folder, postgres, mariadb) =
        (tempfile::tempdir().expect("a folder"), Postgres::shared(), MariaDb::shared());
    let file = format!("sqlite:{}", folder.path().join("counts.db").display());
    let all = [file, postgres.database(), mariadb.database()];
    ((folder, postgres, mariadb), all)
}

/// What a store lives on.
pub(crate) trait Servers {
    fn each(&self) -> &[RedisServer];
}

/// Looks at nothing.
pub(crate) const fn leave(_: &impl Servers) {}

impl Servers for () {
    fn each(&self) -> &[RedisServer] {
        &[]
    }
}

impl Servers for TempDir {
    fn each(&self) -> &[RedisServer] {
        &[]
    }
}

impl<T> Servers for Arc<T> {
    fn each(&self) -> &[RedisServer] {
        &[]
    }
}

impl Servers for RedisServer {
    fn each(&self) -> &[RedisServer] {
        std::slice::from_ref(self)
    }
}

impl Servers for RedisCluster {
    fn each(&self) -> &[RedisServer] {
        self.nodes()
    }
}

/// A server whose users run no scripts.
pub(crate) fn without_scripts() -> RedisServer {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "default", "-@scripting"]);
    server
}
