//! Tests for the rows of window counters in SQL databases, and for database failures.

use counter_core::unstable::sqlx::{self, MySql, MySqlPool, PgPool, QueryBuilder, Sqlite, SqlitePool};
use counter_core::window::store::{Addition, Earlier, WindowKey};
use counter_core::window::{Window, WindowCounters, WindowStore};
use counter_core::{Error, ErrorKind, SqlStore, Timestamp};
use tests::{FaultProxy, Postgres};
use tokio::task::JoinSet;

use super::contract::{app, hours, n, token};
use crate::stores::{databases, sql};

/// Builds a key that is valid for any store clock.
fn key(counter: &str, expiry: Timestamp) -> WindowKey {
    WindowKey {
        counter: counter.into(),
        group: None,
        width: 3600,
        start: Timestamp::MIN,
        expiry,
        open: Timestamp::MIN..Timestamp::MAX,
    }
}

async fn add(store: &SqlStore, key: &WindowKey, amount: u64) -> Result<u64, ErrorKind> {
    let answers = store.add(&[Addition { key: key.clone(), amount }]).await;
    answers.into_iter().next().expect("an answer").map_err(|error| error.kind().clone())
}

#[tokio::test]
async fn an_expired_window_starts_from_zero() {
    let (_servers, urls) = databases();
    for url in urls {
        let store = sql(&url).await;
        let now = Timestamp::now();
        let (over, open) = (key("app=a", now.minus(10)), key("app=a", now.plus(3600)));
        assert_eq!(add(&store, &over, 5).await, Ok(5), "{url}");
        assert_eq!(store.counts(std::slice::from_ref(&over)).await.expect("readable"), [0]);
        assert_eq!(store.add_once(&over, token(1)).await.expect("counted"), (true, 1));
        assert_eq!(store.add_once(&over, token(1)).await.expect("counted"), (true, 1));
        let within = Addition { key: open.clone(), amount: 2 };
        for is_added in [true, false] {
            let decided = store.add_within(&within, Earlier::NONE, 3).await.expect("decided");
            assert_eq!((decided.is_added, decided.count), (is_added, 2));
        }
        assert_eq!(store.add_once(&open, token(1)).await.expect("counted"), (true, 3));
        assert_eq!(store.add_once(&open, token(1)).await.expect("counted"), (false, 3));
        // The expiry of the first call applies.
        assert_eq!(add(&store, &over, 1).await, Ok(4));
        assert_eq!(store.counts(&[open]).await.expect("readable"), [4]);
    }
}

#[tokio::test]
async fn expired_windows_are_removed_with_their_tokens() {
    let (_servers, urls) = databases();
    for url in urls {
        let store = sql(&url).await;
        let now = Timestamp::now();
        // The first call uses up the cleanup of this minute while there is nothing to remove.
        assert_eq!(add(&store, &key("app=kept", now.plus(3600)), 1).await, Ok(1));
        let additions: Vec<_> = (0..1500)
            .map(|app| Addition { key: key(&format!("app={app}"), now.minus(10)), amount: 1 })
            .collect();
        assert!(store.add(&additions).await.iter().all(Result::is_ok));
        for of in 0..3 {
            assert!(store.add_once(&key("app=0", now.minus(10)), token(of)).await.expect("counted").0);
        }
        let retained = key("app=kept", now.plus(3600));
        assert!(store.add_once(&retained, token(1)).await.expect("counted").0);
        // Another process removes a thousand rows per call as long as there are more.
        let other = SqlStore::connect(&url).await.expect("a database");
        for _ in 0..3 {
            add(&other, &retained, 1).await.expect("counted");
        }
        assert_eq!(rows(&url).await, [1, 1], "{url}");
        assert_eq!(store.add_once(&retained, token(1)).await.expect("counted"), (false, 5));
    }
}

/// Returns the number of rows in the window table and in the token table.
async fn rows(url: &str) -> [i64; 2] {
    let mut rows = [0; 2];
    for (rows, table) in rows.iter_mut().zip(["access_window", "access_window_token"]) {
        let text = format!("SELECT COUNT(*) FROM {table}");
        *rows = if url.starts_with("sqlite") {
            let pool = SqlitePool::connect(url).await.expect("the server replies");
            QueryBuilder::<Sqlite>::new(text).build_query_scalar().fetch_one(&pool).await
        } else if url.starts_with("postgres") {
            let pool = PgPool::connect(url).await.expect("the server replies");
            QueryBuilder::<sqlx::Postgres>::new(text).build_query_scalar().fetch_one(&pool).await
        } else {
            let pool = MySqlPool::connect(url).await.expect("the server replies");
            QueryBuilder::<MySql>::new(text).build_query_scalar().fetch_one(&pool).await
        }
        .expect("a number");
    }
    rows
}

#[tokio::test]
async fn an_out_of_range_sum_is_rejected_and_the_others_are_counted() {
    let (_servers, urls) = databases();
    for url in urls {
        let store = sql(&url).await;
        let expiry = Timestamp::now().plus(3600);
        let [full, good, long] = ["app=full", "app=good", &"x".repeat(2001)].map(|app| key(app, expiry));
        let most = i64::MAX.unsigned_abs();
        assert_eq!(add(&store, &full, most).await, Ok(most));
        let additions = [(&good, 1), (&full, 1), (&long, 1), (&good, most + 1), (&good, 2)];
        let additions = additions.map(|(key, amount)| Addition { key: key.clone(), amount });
        let answers = store.add(&additions).await;
        let answers: Vec<_> =
            answers.into_iter().map(|answer| answer.map_err(|error| error.kind().clone())).collect();
        let rejected = || Err(ErrorKind::Rejected);
        assert_eq!(answers, [Ok(1), rejected(), rejected(), rejected(), Ok(3)], "{url}");
        assert_eq!(store.counts(&[full, good]).await.expect("readable"), [most, 3]);
    }
}

#[tokio::test]
async fn repeated_additions_to_a_counter_in_one_call_are_sequential() {
    let (_servers, urls) = databases();
    for url in urls {
        let store = sql(&url).await;
        let (expiry, longer) = (Timestamp::now().plus(3600), Timestamp::now().plus(7200));
        let closed = WindowKey { open: Timestamp::MIN..Timestamp::MIN.plus(1), ..key("app=c", expiry) };
        let keys =
            [key("app=a", expiry), key("app=b", expiry), key("app=a", longer), closed, key("app=a", expiry)];
        let answers = store.add(&keys.map(|key| Addition { key, amount: 2 })).await;
        let counts: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok().copied()).collect();
        assert_eq!(counts, [Some(2), Some(2), Some(4), None, Some(6)], "{url}");
    }
}

#[tokio::test]
async fn limits_and_tokens_are_exact_for_concurrent_callers() {
    let (_servers, urls) = databases();
    for url in urls {
        drop(sql(&url).await);
        let (limit, now) = (30, Timestamp::now());
        let mut clients = JoinSet::new();
        for _ in 0..3 {
            let days = WindowCounters::new(SqlStore::connect(&url).await.expect("a database"), Window::DAY);
            for client in 0..4 {
                let days = days.clone();
                clients.spawn(async move {
                    let (mut passed, mut new) = (0, 0);
                    for of in 0..8 {
                        let amount = 1 + client % 2;
                        let pass =
                            days.try_acquire_at(&app("a"), limit, n(amount), now).await.expect("decided");
                        passed += if pass.allowed { amount } else { 0 };
                        let once = days.increment_once_at(&app("b"), token(of), now).await.expect("counted");
                        new += u32::from(once.is_new);
                    }
                    (passed, new)
                });
            }
        }
        let all = clients.join_all().await;
        assert_eq!(all.iter().map(|(passed, _)| passed).sum::<u32>(), limit, "{url}");
        assert_eq!(all.iter().map(|(_, new)| new).sum::<u32>(), 8, "{url}");
        let days = WindowCounters::new(sql(&url).await, Window::DAY);
        assert_eq!(days.current_at(&app("a"), now).await.expect("readable"), u64::from(limit));
        assert_eq!(days.current_at(&app("b"), now).await.expect("readable"), 8);
    }
}

#[tokio::test]
async fn an_increment_with_an_unanswered_commit_is_unconfirmed_and_counts_once() {
    let server = Postgres::start();
    let proxy = FaultProxy::start_before_sql(server.address()).await;
    let (direct, now) = hours(sql(&server.url()).await);
    let behind = sql(&format!("postgres://postgres@{}/postgres", proxy.address())).await;
    let behind = WindowCounters::new(behind, direct.window());
    let kind = |error: Error| error.kind().clone();
    let counted = async |name: &str| direct.current_at(&app(name), now).await.expect("readable");

    proxy.swallow_replies(1);
    let lost = behind.increment_at(&app("a"), n(1), now).await;
    assert_eq!((lost.map_err(kind), counted("a").await), (Err(ErrorKind::Unconfirmed), 1));
    proxy.drop_requests(1);
    let lost = behind.try_acquire_at(&app("a"), 9, n(1), now).await;
    assert_eq!((lost.map_err(kind), counted("a").await), (Err(ErrorKind::Unconfirmed), 1));

    proxy.swallow_replies(1);
    let lost = behind.increment_once_at(&app("b"), token(1), now).await;
    assert_eq!((lost.map_err(kind), counted("b").await), (Err(ErrorKind::Unavailable), 1));
    let again = behind.increment_once_at(&app("b"), token(1), now).await.expect("counted");
    assert_eq!((again.is_new, again.count), (false, 1));
    assert_eq!((proxy.swallowed(), proxy.dropped()), (2, 1));
}
