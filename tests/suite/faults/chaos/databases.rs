//! SQL databases with injected faults.

use std::time::Duration;

use counter_core::sketch::Sketch;
use counter_core::time::Bucket;
use counter_core::unstable::sqlx;
use counter_core::{CounterName, SqlStore, VisitorId};
use sqlx::Connection;
use tempfile::TempDir;
use tests::history::Promise;
use tests::{FaultProxy, MariaDb, Postgres, until};
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::LIMIT;
use super::servers::Servers;
use crate::random::Random;
use crate::stores::sql;

/// A database server with a proxy.
#[derive(Debug)]
pub(crate) struct Server {
    server: Kind,
    proxy: FaultProxy,
}

#[derive(Debug)]
enum Kind {
    Postgres(Postgres),
    MariaDb(MariaDb),
}

impl Server {
    pub(crate) async fn postgres() -> Self {
        Self::of(Kind::Postgres(block_in_place(Postgres::start))).await
    }

    pub(crate) async fn mariadb() -> Self {
        Self::of(Kind::MariaDb(block_in_place(MariaDb::start))).await
    }

    async fn of(server: Kind) -> Self {
        let address = match &server {
            Kind::Postgres(server) => server.address(),
            Kind::MariaDb(server) => server.address(),
        };
        let server = Self { server, proxy: FaultProxy::start_before_sql(address).await };
        sql(&server.url()).await;
        server
    }

    fn url(&self) -> String {
        match &self.server {
            Kind::Postgres(_) => format!("postgres://postgres@{}/postgres", self.proxy.address()),
            Kind::MariaDb(_) => format!("mariadb://root@{}/access", self.proxy.address()),
        }
    }

    /// Ends every other connection on the server side.
    async fn end_connections(&self) -> Result<(), sqlx::Error> {
        match &self.server {
            Kind::Postgres(server) => {
                let mut connection = sqlx::PgConnection::connect(&server.url()).await?;
                let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE pid <> pg_backend_pid() AND datname = current_database()";
                sqlx::raw_sql(all).execute(&mut connection).await.map(drop)
            }
            Kind::MariaDb(server) => {
                let mut connection = sqlx::MySqlConnection::connect(&server.url()).await?;
                let all = "SELECT id FROM information_schema.processlist \
                    WHERE id <> CONNECTION_ID() AND db = DATABASE()";
                let ids: Vec<i64> = sqlx::query_scalar(all).fetch_all(&mut connection).await?;
                for id in ids {
                    // The connection may be closed by now.
                    drop(
                        sqlx::QueryBuilder::new(format!("KILL {id}")).build().execute(&mut connection).await,
                    );
                }
                Ok(())
            }
        }
    }

    async fn restart(&mut self, random: &mut Random) {
        match &mut self.server {
            Kind::Postgres(server) => block_in_place(|| server.kill()),
            Kind::MariaDb(server) => block_in_place(|| server.kill()),
        }
        sleep(random.millis(0..200)).await;
        match &mut self.server {
            Kind::Postgres(server) => block_in_place(|| server.restart()),
            Kind::MariaDb(server) => block_in_place(|| server.restart()),
        }
    }
}

impl Servers for Server {
    const CAN_FORGET: bool = false;
    const FAULTS: u64 = 16;
    // The throughput of a database depends on the batch size, and a storm waits for a hundred batches.
    const MAX_PENDING: u64 = 100;

    type Store = SqlStore;

    fn promise(&self) -> Promise {
        match self.server {
            Kind::Postgres(_) => Promise::Immediate,
            Kind::MariaDb(_) => Promise::Acknowledged,
        }
    }

    async fn store(&self) -> SqlStore {
        connected(&self.url()).await
    }

    async fn batches(&self) -> u64 {
        let text = "SELECT CAST(COALESCE(SUM(sequence), 0) AS SIGNED) FROM access_fence";
        let sum: Result<i64, _> = match &self.server {
            Kind::Postgres(server) => {
                let pool = sqlx::PgPool::connect(&server.url()).await.expect("the server replies");
                sqlx::query_scalar("SELECT CAST(COALESCE(SUM(sequence), 0) AS BIGINT) FROM access_fence")
                    .fetch_one(&pool)
                    .await
            }
            Kind::MariaDb(server) => {
                let pool = sqlx::MySqlPool::connect(&server.url()).await.expect("the server replies");
                sqlx::query_scalar(text).fetch_one(&pool).await
            }
        };
        u64::try_from(sum.expect("readable")).expect("not negative")
    }

    async fn reference(&self, _: &CounterName, _: Bucket, visitors: &[VisitorId]) -> Sketch {
        sketch_of(visitors)
    }

    async fn fault(&mut self, kind: u64, random: &mut Random) -> &'static str {
        let proxy = &self.proxy;
        match kind {
            0..4 => {
                proxy.swallow_replies(random.among(1..4));
                "replies to lose"
            }
            4..7 => {
                proxy.drop_requests(random.among(1..4));
                "requests to lose"
            }
            7..9 => {
                proxy.refuse(true);
                sleep(random.millis(5..150)).await;
                proxy.refuse(false);
                "rejected connections"
            }
            9..11 => {
                proxy.delay_replies(random.millis(1..20));
                sleep(random.millis(20..200)).await;
                proxy.delay_replies(Duration::ZERO);
                "delay"
            }
            11 => {
                proxy.black_hole(true);
                sleep(random.millis(20..300)).await;
                proxy.black_hole(false);
                "black hole"
            }
            // This should be rare because each pending call has to wait for five seconds.
            12 if random.among(0..3) == 0 => {
                proxy.freeze();
                "forgotten connections"
            }
            13 => {
                self.restart(random).await;
                "restart"
            }
            _ => {
                self.end_connections().await.expect("the server answers");
                "ended connections"
            }
        }
    }

    fn all_faults_took_effect(&self) -> bool {
        self.proxy.swallowed() > 0 && self.proxy.dropped() > 0
    }

    async fn heal(&mut self) {
        self.proxy.swallow_replies(0);
        self.proxy.drop_requests(0);
    }
}

/// A SQLite file that is also used by other programs.
#[derive(Debug)]
pub(crate) struct File {
    folder: TempDir,
}

impl File {
    pub(crate) async fn new() -> Self {
        let file = Self { folder: tempfile::tempdir().expect("a folder") };
        sql(&file.url()).await;
        file
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("counts.db").display())
    }

    async fn other(&self) -> sqlx::SqliteConnection {
        sqlx::SqliteConnection::connect(&self.url()).await.expect("the file")
    }
}

impl Servers for File {
    const CAN_FORGET: bool = false;
    const FAULTS: u64 = 6;

    type Store = SqlStore;

    async fn store(&self) -> SqlStore {
        connected(&self.url()).await
    }

    async fn batches(&self) -> u64 {
        let sum: i64 = sqlx::query_scalar("SELECT COALESCE(SUM(sequence), 0) FROM access_fence")
            .fetch_one(&mut self.other().await)
            .await
            .expect("readable");
        u64::try_from(sum).expect("not negative")
    }

    async fn reference(&self, _: &CounterName, _: Bucket, visitors: &[VisitorId]) -> Sketch {
        sketch_of(visitors)
    }

    async fn fault(&mut self, kind: u64, random: &mut Random) -> &'static str {
        let mut other = self.other().await;
        // If a statement fails because the file is locked, it will be tried again later.
        let mut run = async |text: &'static str| sqlx::raw_sql(text).execute(&mut other).await.is_ok();
        match kind {
            0..3 => {
                run("BEGIN IMMEDIATE").await;
                sleep(random.millis(5..400)).await;
                "a writer"
            }
            3..5 => {
                run("BEGIN; SELECT COUNT(*) FROM access_sample").await;
                sleep(random.millis(5..400)).await;
                run("PRAGMA wal_checkpoint(TRUNCATE)").await;
                "a reader"
            }
            _ => {
                run("VACUUM").await;
                "a rewritten file"
            }
        }
    }

    fn all_faults_took_effect(&self) -> bool {
        true
    }

    async fn heal(&mut self) {}
}

/// Retries until the connection succeeds.
async fn connected(url: &str) -> SqlStore {
    let mut store = None;
    until("the database answers", LIMIT, async || {
        store = SqlStore::connect(url).await.ok();
        store.is_some()
    })
    .await;
    store.expect("the server replies")
}

fn sketch_of(visitors: &[VisitorId]) -> Sketch {
    let mut sketch = Sketch::new();
    for visitor in visitors {
        sketch.insert(*visitor);
    }
    sketch
}
