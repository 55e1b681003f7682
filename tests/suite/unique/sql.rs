//! Tests for unique counters in SQL databases with concurrent access to the same counter.

use counter_core::sketch::Sketch;
use counter_core::unique::{Distinct, ExcludingCounter, UniqueCounter};
use counter_core::unstable::sqlx::{SqlitePool, query};
use counter_core::{ErrorKind, SqlStore};
use tokio::task::JoinSet;

use super::contract::{adaptive, count, hll, include, set, sketch_of, visitor};
use crate::stores::{databases, sql};

#[tokio::test]
async fn concurrent_processes_crossing_the_threshold_lose_no_items() {
    let (_servers, urls) = databases();
    for url in urls {
        let store = sql(&url).await;
        let mut clients = JoinSet::new();
        for client in 0..4 {
            let store = SqlStore::connect(&url).await.expect("a database");
            clients.spawn(async move {
                let (guests, voters) = (adaptive(&store, "guests", 300), set(&store, "voters"));
                let mut new = 0;
                // Half of these items are also added by the next client.
                for some in 0..5 {
                    let first = 50 * client + 250 * some;
                    include(&guests, first..first + 100).await;
                    new += include(&voters, first..first + 100).await;
                }
                new
            });
        }
        let new: u64 = clients.join_all().await.into_iter().sum();
        let guests = adaptive(&store, "guests", 300);
        assert_eq!(count(&guests).await.items(), sketch_of(0..1250).estimate(), "{url}");
        assert_eq!((new, count(&set(&store, "voters")).await), (1250, Distinct::Exact(1250)));
    }
}

#[tokio::test]
async fn lowering_the_threshold_converts_existing_items_to_a_sketch() {
    let (_servers, urls) = databases();
    for url in urls {
        let store = sql(&url).await;
        assert_eq!(include(&adaptive(&store, "guests", 300), 0..250).await, 250);
        let guests = adaptive(&store, "guests", 200);
        assert_eq!(include(&guests, 0..10).await, 0);
        assert!(!matches!(count(&guests).await, Distinct::Exact(_)), "{url}");
    }
}

#[tokio::test]
async fn large_sets_are_removed_and_emptied_sets_start_from_zero() {
    let (_servers, urls) = databases();
    for url in urls {
        let store = sql(&url).await;
        let voters = set(&store, "voters");
        assert_eq!(include(&voters, 0..20_500).await, 20_500);
        voters.forget().await.expect("the store is available");
        assert_eq!(count(&voters).await, Distinct::Exact(0), "{url}");
        assert_eq!(include(&voters, 0..2).await, 2);
        for of in 0..2 {
            assert!(voters.exclude(visitor(of)).await.expect("the store is available"));
        }
        assert!(!voters.exclude(visitor(0)).await.expect("the store is available"));
        assert_eq!(include(&voters, 0..3).await, 3);
    }
}

#[tokio::test]
async fn registers_use_the_redis_format_and_invalid_ones_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("counts.db").display());
    let (store, file) = (sql(&url).await, SqlitePool::connect(&url).await.expect("a file"));
    let readers = hll(&store, "readers");
    for (last, bytes) in [(20, 10..3000), (5000, 12_304..12_305)] {
        include(&readers, 0..last).await;
        let text = "SELECT registers FROM access_unique WHERE name = 'hll:readers'";
        let (registers,): (Vec<u8>,) =
            counter_core::unstable::sqlx::query_as(text).fetch_one(&file).await.expect("a row");
        assert!(bytes.contains(&registers.len()), "{}", registers.len());
        assert_eq!(Sketch::from_redis(&registers), Ok(sketch_of(0..last)));
    }
    query("UPDATE access_unique SET registers = 'none'")
        .execute(&file)
        .await
        .expect_err("the column is strict");
    query("UPDATE access_unique SET registers = X'00'").execute(&file).await.expect("a row");
    let malformed = ErrorKind::Malformed { key: "access_unique hll:readers".to_owned() };
    assert_eq!(readers.include("ann").await.expect_err("these are no registers").kind(), &malformed);
    assert_eq!(readers.count().await.expect_err("these are no registers").kind(), &malformed);
}
