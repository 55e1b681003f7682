//! Tests for SQLite files that are removed, moved or replaced while processes use them.

use std::fs;
use std::path::{Path, PathBuf};

use counter_core::entity::{EntityDatabase, EntityErrorKind, EntityId};
use counter_core::stores::SqlBuilder;
use counter_core::unique::UniqueStore;
use counter_core::unstable::{SqliteDatabase, sqlx};
use counter_core::visits::Hint;
use counter_core::{Counters, ErrorKind, SqlStore};
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnection, SqlitePool};
use tempfile::TempDir;
use tests::{LIMIT, until};

use crate::support::name;

/// A folder with a database, and a process that counts in this database.
struct Site {
    folder: TempDir,
    store: SqlStore,
    counters: Counters,
}

impl Site {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("data")).expect("it is new");
        let store = creating(&path_in(&folder)).await;
        let counters = Counters::builder(store.clone()).build().expect("good settings");
        Self { folder, store, counters }
    }

    fn path(&self) -> PathBuf {
        path_in(&self.folder)
    }

    fn record(&self, hits: u32) {
        let recorder = self.counters.recorder();
        (0..hits).for_each(|_| recorder.record(recorder.counter("a"), None));
    }

    async fn count(&mut self, hits: u32) {
        self.record(hits);
        until("the store accepts the batch", LIMIT, async || self.counters.flush().await.is_ok()).await;
    }

    async fn total(&self) -> u64 {
        self.counters.stats().lifetimes(&[name("a")]).await.expect("readable")[0]
    }

    fn reports_a_replaced_file(&self) -> bool {
        self.counters.stats().health().hints.contains(&Hint::STORE_REPLACED)
    }
}

fn path_in(folder: &TempDir) -> PathBuf {
    folder.path().join("data/counts.db")
}

fn address(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

async fn creating(path: &Path) -> SqlStore {
    SqlBuilder::default().create_tables().connect(&address(path)).await.expect("a database")
}

async fn open(path: &Path) -> SqliteConnection {
    SqliteConnection::connect(&address(path)).await.expect("the file exists")
}

/// Copies a database like a backup tool.
async fn back_up(path: &Path, backup: &Path) {
    let copy = format!("VACUUM INTO '{}'", backup.display());
    let mut query = sqlx::QueryBuilder::<sqlx::Sqlite>::new(copy);
    query.build().execute(&mut open(path).await).await.expect("the backup is new");
}

/// Returns the total that another process finds in the file at this path.
async fn total_at(path: &Path) -> i64 {
    let mut file = open(path).await;
    let found: String =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut file).await.expect("readable");
    assert_eq!(found, "ok");
    let total = "SELECT total FROM access_counter WHERE name = 'a'";
    sqlx::query_scalar(total).fetch_one(&mut file).await.expect("the counter exists")
}

#[tokio::test]
async fn the_files_of_a_database_are_private() {
    use std::os::unix::fs::PermissionsExt;

    let mut site = Site::start().await;
    site.count(1).await;
    let mode = |suffix: &str| {
        let file = fs::metadata(format!("{}{suffix}", site.path().display())).expect("it exists");
        file.permissions().mode() & 0o777
    };
    assert_eq!(["", "-wal", "-shm"].map(mode), [0o600; 3]);
}

#[tokio::test]
async fn a_backup_moved_over_the_file_is_sent_the_missing_hits() {
    let mut site = Site::start().await;
    // A backup should not have these pages in the same order.
    for page in 0..300 {
        let recorder = site.counters.recorder();
        recorder.record(recorder.counter(&format!("/{page}")), None);
    }
    site.count(1).await;
    let backup = site.folder.path().join("backup");
    back_up(&site.path(), &backup).await;
    site.count(10).await;
    assert!(!site.reports_a_replaced_file());
    fs::rename(&backup, site.path()).expect("one file system");
    site.count(100).await;
    assert_eq!((site.total().await, total_at(&site.path()).await), (111, 111));
    assert_eq!(site.counters.recorder().ledger().hits.lost_by_server, 0);
    assert!(site.reports_a_replaced_file());
}

#[tokio::test]
async fn two_processes_continue_in_a_replaced_file() {
    let mut site = Site::start().await;
    site.count(1).await;
    let mut other = Counters::builder(creating(&site.path()).await).build().expect("good settings");
    let backup = site.folder.path().join("backup");
    back_up(&site.path(), &backup).await;
    fs::rename(&backup, site.path()).expect("one file system");
    for _ in 0..5 {
        site.count(10).await;
        other.recorder().record(other.recorder().counter("a"), None);
        until("the store accepts the batch", LIMIT, async || other.flush().await.is_ok()).await;
    }
    assert_eq!(total_at(&site.path()).await, 56);
}

#[tokio::test]
async fn a_removed_file_causes_an_outage_and_is_recreated() {
    let mut site = Site::start().await;
    site.count(10).await;
    for entry in fs::read_dir(site.folder.path().join("data")).expect("a folder") {
        fs::remove_file(entry.expect("an entry").path()).expect("it exists");
    }
    site.record(1);
    let error = site.counters.flush().await.expect_err("the file was removed");
    assert_eq!(*error.kind(), ErrorKind::Unavailable);
    assert!(format!("{error:?}").contains("counts.db was removed while in use"), "{error:?}");
    let health = site.counters.stats().health();
    assert!(!health.is_well() && health.pending == 1, "{health:?}");
    site.count(100).await;
    assert_eq!((site.total().await, total_at(&site.path()).await), (111, 111));
    assert!(site.reports_a_replaced_file());
}

#[tokio::test]
async fn hits_stay_pending_while_the_directory_is_missing() {
    let mut site = Site::start().await;
    site.count(1).await;
    let (data, moved) = (site.folder.path().join("data"), site.folder.path().join("moved"));
    fs::rename(&data, &moved).expect("one file system");
    site.record(10);
    site.counters.flush().await.expect_err("the directory is missing");
    let key = &counter_core::unique::store::UniqueKey {
        name: name("a"),
        kind: counter_core::unique::store::UniqueKind::Set,
    };
    let store = site.store.clone();
    let unique: &dyn UniqueStore = store.as_ref();
    unique.include(key, &[b"item".to_vec()]).await.expect_err("the directory is missing");
    unique.distinct(key).await.expect_err("reads do not use the file that was moved");
    assert_eq!(site.counters.recorder().ledger().hits.pending, 10);
    fs::rename(&moved, &data).expect("one file system");
    site.count(100).await;
    assert_eq!((site.total().await, total_at(&site.path()).await), (111, 111));
    unique.include(key, &[b"item".to_vec()]).await.expect("the directory is back");
}

#[tokio::test]
async fn a_moved_file_is_complete_without_its_log() {
    let mut site = Site::start().await;
    site.count(10).await;
    let moved = site.folder.path().join("moved.db");
    fs::rename(site.path(), &moved).expect("one file system");
    site.count(1).await;
    assert_eq!((total_at(&moved).await, total_at(&site.path()).await), (10, 11));
}

#[tokio::test]
async fn a_removed_log_loses_no_hits() {
    let mut site = Site::start().await;
    site.count(10).await;
    for log in ["counts.db-wal", "counts.db-shm"] {
        fs::remove_file(site.folder.path().join("data").join(log)).expect("it exists");
    }
    site.count(1).await;
    assert_eq!((site.total().await, total_at(&site.path()).await), (11, 11));
}

#[tokio::test]
async fn a_store_without_table_creation_waits_for_its_file() {
    let mut site = Site::start().await;
    let store = SqlStore::connect(&address(&site.path())).await.expect("the file exists");
    site.counters = Counters::builder(store).build().expect("good settings");
    site.count(1).await;
    let moved = site.folder.path().join("moved");
    fs::rename(site.path(), &moved).expect("one file system");
    fs::write(site.path(), "").expect("the folder is writable");
    site.record(10);
    site.counters.flush().await.expect_err("the file is empty");
    fs::rename(&moved, site.path()).expect("one file system");
    site.count(100).await;
    assert_eq!((site.total().await, total_at(&site.path()).await), (111, 111));
}

#[tokio::test]
async fn entities_are_counted_in_a_replaced_file() {
    let mut site = Site::start().await;
    // Both use the same file, but via different connections.
    let pool = SqlitePool::connect(&address(&site.path())).await.expect("the file exists");
    let database = SqliteDatabase::new(pool);
    database.create_tables().await.expect("the file is writable");
    let id: EntityId = 1_u64.into();
    let like = async || database.increment("post", id, "likes", 1).await;
    let likes = async |path: PathBuf| -> i64 {
        let value = "SELECT value FROM access_entity";
        sqlx::query_scalar(value).fetch_one(&mut open(&path).await).await.expect("readable")
    };
    like().await.expect("the file is writable");
    site.count(1).await;
    let (backup, moved) = (site.folder.path().join("backup"), site.folder.path().join("moved"));
    back_up(&site.path(), &backup).await;
    like().await.expect("the file is writable");

    fs::rename(site.path(), &moved).expect("one file system");
    let error = like().await.expect_err("the file was moved");
    assert_eq!(*error.kind(), EntityErrorKind::Unavailable, "{error:?}");
    fs::rename(&backup, site.path()).expect("one file system");
    like().await.expect("the file exists again");
    site.count(10).await;
    like().await.expect("the file exists again");
    assert_eq!((likes(site.path()).await, total_at(&site.path()).await), (3, 11));
}
