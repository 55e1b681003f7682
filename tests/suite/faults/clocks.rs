//! Machines with a wrong clock, where the store clock should be used instead.

use std::num::NonZeroU32;

use counter_core::unstable::sqlx;
use counter_core::visits::Hint;
use counter_core::{Counters, SqlStore, Timestamp};
use sqlx::Connection;
use tests::RedisServer;

use crate::stores::{self, databases, sql, without_scripts};
use crate::support::{name, precision, store};

const DAY: u64 = 86_400;

#[tokio::test]
async fn a_cleaner_with_a_fast_clock_removes_no_retained_samples() {
    for server in [RedisServer::start(), without_scripts()] {
        let counters = Counters::builder(store(&server.url()).await).build().expect("good settings");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let (mut flusher, _) = counters.into_parts();
        for day in 0..100 {
            let at = Timestamp::now().minus(day * 86_400);
            recorder.record_at(recorder.counter("hits"), None, at, NonZeroU32::MIN);
        }
        flusher.flush().await.expect("flushes");
        let other = Counters::builder(store(&server.url()).await).build().expect("good settings");
        let (_, mut cleaner) = other.into_parts();
        cleaner.clean_once(Timestamp::now().plus(183 * 86_400)).await.expect("cleans");
        let range = Timestamp::now().minus(110 * 86_400)..Timestamp::now().plus(1);
        let total = stats.total(&name("hits"), precision(86_400), range).await.expect("readable");
        assert_eq!(total, 100);
    }
}

#[tokio::test]
async fn hits_days_in_the_future_are_dropped_and_accounted_for() {
    for server in [RedisServer::start(), without_scripts()] {
        let redis = store(&server.url()).await;
        let mut counters = Counters::builder(redis).build().expect("good settings");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let now = Timestamp::now();
        let key = counter_core::visitor::VisitorKey::new([7; 16]);
        for ahead in [0, 3600, 20 * 3600, 2 * 86_400, 300 * 86_400] {
            let visitor = key.visitor(&[&now.plus(ahead).as_unix().to_le_bytes()]);
            recorder.record_at(recorder.counter("hits"), visitor, now.plus(ahead), NonZeroU32::MIN);
        }
        counters.flush().await.expect("flushes");
        let hits = stats.ledger().hits;
        assert_eq!((hits.applied, hits.dropped.ahead, hits.balance()), (3, 2, true));
        assert_eq!(stats.lifetimes(&[name("hits")]).await.expect("readable"), [3]);
        let skew = stats.health().clock_skew.expect("a batch was sent");
        assert!(skew.abs() <= 1, "both are of one machine: {skew}");
    }
}

/// Returns the number of days with hits within a year.
async fn days(counters: &Counters) -> u64 {
    let range = Timestamp::now().minus(400 * DAY)..Timestamp::now().plus(DAY);
    counters.stats().total(&name("hits"), precision(86_400), range).await.expect("readable")
}

async fn clean(counters: Counters) {
    counters.into_parts().1.clean_once(Timestamp::now()).await.expect("cleans");
}

/// Returns a file that was last used 200 days ago, with a hit on 100 days.
async fn abandoned(last_used: &'static str) -> (impl Sized, String) {
    let (folder, store) = stores::sqlite().await;
    let mut counters = Counters::builder(store).precisions(yearly_days()).build().expect("good settings");
    let (recorder, now) = (counters.recorder(), Timestamp::now());
    for day in 200..300 {
        recorder.record_at(recorder.counter("hits"), None, now.minus(day * DAY), NonZeroU32::MIN);
    }
    counters.flush().await.expect("flushes");
    let url = format!("sqlite:{}", folder.path().join("counts.db").display());
    let mut file = sqlx::SqliteConnection::connect(&url).await.expect("the file");
    sqlx::raw_sql(last_used).execute(&mut file).await.expect("done");
    (folder, url)
}

fn yearly_days() -> counter_core::Precisions {
    let samples = NonZeroU32::new(366).expect("not 0");
    counter_core::Precisions::new([precision(86_400)]).expect("one").samples(samples)
}

async fn reopen(url: &str) -> Counters {
    let store = SqlStore::connect(url).await.expect("the file");
    Counters::builder(store).build().expect("good settings")
}

#[tokio::test]
async fn a_process_with_a_clock_200_days_ahead_deletes_no_history() {
    for last_used in [
        "INSERT OR REPLACE INTO access_meta VALUES ('trusted_time', unixepoch() - 200 * 86400)",
        // This simulates a file from an earlier version.
        "DELETE FROM access_meta WHERE name = 'trusted_time'; UPDATE access_fence SET written = written - 200 * 86400",
    ] {
        let (_folder, url) = abandoned(last_used).await;
        let counters = reopen(&url).await;
        let stats = counters.stats();
        clean(counters).await;
        assert_eq!(days(&reopen(&url).await).await, 100, "{last_used}");
        assert_eq!(stats.health().hints, [Hint::CLOCK_JUMPED]);
        // The next process starts with the trusted time, so it should not remove anything either.
        clean(reopen(&url).await).await;
        assert_eq!(days(&reopen(&url).await).await, 100, "{last_used}");
    }
}

#[tokio::test]
async fn a_service_returning_after_200_days_eventually_removes_old_history() {
    let (_folder, url) =
        abandoned("INSERT OR REPLACE INTO access_meta VALUES ('trusted_time', unixepoch() - 200 * 86400)")
            .await;
    let mut counters = reopen(&url).await;
    let recorder = counters.recorder();
    recorder.record(recorder.counter("hits"), None);
    // In the meantime, seconds recorded since the return should not accumulate.
    recorder.record_at(recorder.counter("hits"), None, Timestamp::now().minus(3600), NonZeroU32::MIN);
    counters.flush().await.expect("flushes");
    let store = SqlStore::connect(&url).await.expect("the file");
    let (_, mut cleaner) = counters.into_parts();
    cleaner.clean_once(Timestamp::now()).await.expect("cleans");
    assert_eq!(days(&reopen(&url).await).await, 102);
    let mut file = sqlx::SqliteConnection::connect(&url).await.expect("the file");
    let seconds = "SELECT COUNT(*) FROM access_sample WHERE width = 1";
    let seconds: i64 = sqlx::query_scalar(seconds).fetch_one(&mut file).await.expect("readable");
    assert_eq!(seconds, 1);
    // Time passes, so the clock is now trusted.
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(60 * DAY)).await;
    tokio::time::resume();
    cleaner.clean_once(Timestamp::now()).await.expect("cleans");
    assert_eq!(days(&reopen(&url).await).await, 2);
    drop(store);
}

#[tokio::test]
async fn servers_store_the_trusted_time_too() {
    let (_servers, urls) = databases();
    for url in urls {
        let store = sql(&url).await;
        let mut counters = Counters::builder(store).build().expect("good settings");
        let recorder = counters.recorder();
        for day in [0, 50, 300] {
            let at = Timestamp::now().minus(day * DAY);
            recorder.record_at(recorder.counter("hits"), None, at, NonZeroU32::MIN);
        }
        counters.flush().await.expect("flushes");
        clean(counters).await;
        // The second pass will read the trusted time stored by the first pass.
        clean(reopen(&url).await).await;
        assert_eq!(days(&reopen(&url).await).await, 2, "{url}");
    }
}
