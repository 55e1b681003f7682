//! The stores to run the contract tests on, with their servers.
//!
//! A contract test is a function that takes a store. The `on!` macro below turns it into a test for each
//! store, so that the test's name consists of the file's module path, the store and the function. You can
//! thus find the function by searching for the test's name. The following commands run a function in
//! `visits/contract.rs` on a single store, the same on all stores, and all functions on a single store:
//!
//! ```text
//! cargo test -p tests --test suite -- visits::contract::redis::a_batch_sent_again_counts_once
//! cargo test -p tests --test suite -- a_batch_sent_again_counts_once
//! cargo test -p tests --test suite -- visits::contract::redis::
//! ```
//!
//! If you use rust-analyzer, the editor offers to run a test at its name in the list of `on!`.

use std::sync::Arc;

use counter_core::stores::Shards;
use counter_core::{MemoryStore, RedisStore, SqlStore};
use tempfile::TempDir;
use tests::{MariaDb, Postgres, RedisCluster, RedisServer};

use crate::support::store;

/// Creates tests from functions for these stores: `on! { [memory redis] { fact another_fact } }`. If you add
/// `then function;` before the list, this function will check the servers after each test.
macro_rules! on {
    ([$($kind:ident)*] $facts:tt) => {
        crate::stores::on! { [$($kind)*] then crate::stores::check_nothing; $facts }
    };
    ([$($kind:ident)*] then $check:path; $facts:tt) => {
        $( crate::stores::on! { @ $kind $check; $facts } )*
    };
    (@ $kind:ident $check:path; { $($fact:ident)* }) => {
        mod $kind {
            $(
                #[tokio::test]
                async fn $fact() {
                    let (servers, store) = crate::stores::$kind().await;
                    super::$fact(store).await;
                    $check(&servers);
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

/// Returns a store on an empty database.
pub(crate) async fn sql(url: &str) -> SqlStore {
    SqlStore::builder().create_tables().connect(url).await.expect("a database")
}

/// Creates an empty database on each SQL server and in a file. These exist until the first return value is
/// dropped.
pub(crate) fn databases() -> (impl Sized, [String; 3]) {
    let (folder, postgres, mariadb) =
        (tempfile::tempdir().expect("a folder"), Postgres::shared(), MariaDb::shared());
    let file = format!("sqlite:{}", folder.path().join("counts.db").display());
    let all = [file, postgres.database(), mariadb.database()];
    ((folder, postgres, mariadb), all)
}

/// The servers that a store depends on.
pub(crate) trait Servers {
    fn redis_servers(&self) -> &[RedisServer];
}

/// Checks nothing.
pub(crate) const fn check_nothing(_: &impl Servers) {}

impl Servers for () {
    fn redis_servers(&self) -> &[RedisServer] {
        &[]
    }
}

impl Servers for TempDir {
    fn redis_servers(&self) -> &[RedisServer] {
        &[]
    }
}

impl<T> Servers for Arc<T> {
    fn redis_servers(&self) -> &[RedisServer] {
        &[]
    }
}

impl Servers for RedisServer {
    fn redis_servers(&self) -> &[RedisServer] {
        std::slice::from_ref(self)
    }
}

impl Servers for RedisCluster {
    fn redis_servers(&self) -> &[RedisServer] {
        self.nodes()
    }
}

/// Starts a server where users can't run scripts.
pub(crate) fn without_scripts() -> RedisServer {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "default", "-@scripting"]);
    server
}
