//! Contract tests for window counters in any store.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use counter_core::stores::{BoxFuture, StoreFuture};
use counter_core::visitor::VisitorKey;
use counter_core::window::store::{Acquired, Addition, Earlier, WindowKey};
use counter_core::window::{Dimensions, Window, WindowCounters, WindowStore};
use counter_core::{Error, ErrorKind, Timestamp, VisitorId};
use tokio::task::JoinSet;

use crate::stores::{self, Servers};

stores::on! {
    [memory redis redis_without_scripts cluster sqlite postgres mariadb]
    then super::assert_all_keys_expire;
    {
        an_increment_returns_the_new_count
        windows_of_different_widths_and_offsets_are_independent
        the_history_has_every_retained_window_including_zeros
        a_bulk_call_equals_individual_calls
        a_token_counts_once_in_a_window
        rejected_acquisitions_are_not_counted
        an_expired_instant_neither_counts_nor_acquires
        the_store_clock_determines_the_window
        a_decision_has_the_store_time
        the_limit_per_second_holds_for_any_client_clock
        a_folding_front_returns_the_same_results_as_individual_calls
    }
}

pub(super) fn assert_all_keys_expire(servers: &impl Servers) {
    for server in servers.redis_servers() {
        for key in server.strings(&["KEYS", "*"]) {
            // -2 means that the key is already gone.
            assert_ne!(server.int(&["TTL", &key]), -1, "{key}");
        }
    }
}

pub(super) fn n(amount: u32) -> NonZeroU32 {
    NonZeroU32::new(amount).expect("not 0")
}

pub(super) fn app(name: &str) -> Dimensions {
    Dimensions::new().text("app", name)
}

pub(super) fn token(of: u32) -> VisitorId {
    VisitorKey::new([5; 16]).visitor(&[&of.to_le_bytes()])
}

/// Returns counters by the hour, with windows aligned so that `now` is in the middle of a window for the
/// whole test.
pub(super) fn hours(store: impl WindowStore + Clone) -> (WindowCounters, Timestamp) {
    let now = Timestamp::now();
    let offset = u32::try_from(now.minus(1800).as_unix() % 3600).expect("less than an hour");
    let window = Window::HOUR.starting_at(offset).expect("less");
    (WindowCounters::new(store, window), now)
}

async fn an_increment_returns_the_new_count(store: impl WindowStore + Clone) {
    let (hours, now) = hours(store);
    assert_eq!(hours.current_at(&app("a"), now).await.expect("readable"), 0);
    for (dimensions, amount, sum) in
        [(app("a"), 1, 1), (app("b"), u32::MAX, u64::from(u32::MAX)), (app("a"), 5, 6), (app("a"), 6, 12)]
    {
        assert_eq!(hours.increment_at(&dimensions, n(amount), now).await.expect("counted"), sum);
        assert_eq!(hours.current_at(&dimensions, now).await.expect("readable"), sum);
    }
    let forged = Dimensions::new().text("app", "a:tokens");
    assert_eq!(hours.increment_at(&forged, n(1), now).await.expect("counted"), 1);
}

async fn windows_of_different_widths_and_offsets_are_independent(store: impl WindowStore + Clone) {
    let (hours, now) = hours(store.clone());
    let days = WindowCounters::new(store.clone(), Window::DAY);
    let shifted = hours.window().starting_at((hours.window().offset() + 1) % 3600).expect("less");
    let shifted = WindowCounters::new(store, shifted);
    let next = hours.window().span(now).end;
    for (counters, at) in
        [(&hours, now), (&hours, next), (&days, now), (&shifted, now), (&hours, next.minus(3601))]
    {
        assert_eq!(counters.increment_at(&app("a"), n(7), at).await.expect("counted"), 7);
    }
    assert_eq!(hours.increment_at(&app("a"), n(1), next.minus(1)).await.expect("counted"), 8);
    assert_eq!(hours.increment_at(&app("a"), n(1), next.plus(3599)).await.expect("counted"), 8);
}

async fn the_history_has_every_retained_window_including_zeros(store: impl WindowStore + Clone) {
    let (hours, now) = hours(store);
    let hours = hours.keep(5);
    for (ago, amount) in [(0, 1), (1, 2), (3, 4), (5, 8)] {
        hours.increment_at(&app("a"), n(amount), now.minus(3600 * ago)).await.expect("counted");
    }
    assert_closed(hours.increment_at(&app("a"), n(16), now.minus(3600 * 6)).await);
    let history = hours.history(&app("a"), now).await.expect("readable");
    assert_eq!(history.iter().map(|sample| sample.count).collect::<Vec<_>>(), [8, 0, 4, 0, 2, 1]);
    let starts: Vec<_> = (0..6).rev().map(|ago| hours.window().span(now.minus(3600 * ago)).start).collect();
    assert_eq!(history.iter().map(|sample| sample.start).collect::<Vec<_>>(), starts);
}

async fn a_bulk_call_equals_individual_calls(store: impl WindowStore + Clone) {
    let (hours, now) = hours(store);
    hours.increment_at(&app("3"), n(100), now).await.expect("counted");
    let apps: Vec<_> = (0..2500).map(|app| self::app(&app.to_string())).collect();
    let list: Vec<_> = apps.iter().chain(&apps[..10]).chain(&apps[..10]).map(|app| (app, n(2))).collect();
    let answers = hours.increment_many(list, now).await;
    let counts: Vec<_> = answers.into_iter().map(|answer| answer.expect("counted")).collect();
    let expected = |place: usize| {
        let (app, times) = if place < 2500 { (place, 1) } else { (place % 10, 2 + (place - 2500) / 10) };
        2 * times as u64 + if app == 3 { 100 } else { 0 }
    };
    assert_eq!(counts, (0..2520).map(expected).collect::<Vec<_>>());
    assert!(hours.increment_many([], now).await.is_empty());
}

async fn a_token_counts_once_in_a_window(store: impl WindowStore + Clone) {
    let (hours, now) = hours(store);
    let next = now.plus(3600);
    for (at, of, first, count) in [
        (now, 1, true, 1),
        (now, 1, false, 1),
        (now, 2, true, 2),
        (now, 1, false, 2),
        (next, 1, true, 1),
        (now, 2, false, 2),
    ] {
        let once = hours.increment_once_at(&app("a"), token(of), at).await.expect("counted");
        assert_eq!((once.is_new, once.count), (first, count));
    }
    assert_eq!(hours.increment_at(&app("a"), n(3), now).await.expect("counted"), 5);
    let once = hours.increment_once_at(&app("a"), token(3), now).await.expect("counted");
    assert_eq!((once.is_new, once.count), (true, 6));
}

async fn rejected_acquisitions_are_not_counted(store: impl WindowStore + Clone) {
    let (hours, now) = hours(store);
    for (limit, amount, passed, remaining) in [
        (0, 1, false, 0),
        (10, 11, false, 10),
        (10, 7, true, 3),
        (10, 4, false, 3),
        (10, 3, true, 0),
        (10, 1, false, 0),
        (5, 1, false, 0),
        (11, 1, true, 0),
    ] {
        let pass = hours.try_acquire_at(&app("a"), limit, n(amount), now).await.expect("decided");
        assert_eq!((pass.allowed, pass.limit, pass.remaining), (passed, limit, remaining));
        assert_eq!(pass.reset, hours.window().span(now).end);
    }
    assert_eq!(hours.current_at(&app("a"), now).await.expect("readable"), 11);
}

#[track_caller]
pub(super) fn assert_closed<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let error = answer.expect_err("nothing is counted");
    assert!(matches!(error.kind(), ErrorKind::WindowClosed { .. }), "{error}");
}

async fn an_expired_instant_neither_counts_nor_acquires(store: impl WindowStore + Clone) {
    let (hours, now) = hours(store);
    for at in [now.minus(2 * 3600), now.plus(2 * 3600)] {
        assert_closed(hours.increment_at(&app("a"), n(3), at).await);
        assert_closed(hours.increment_once_at(&app("a"), token(1), at).await);
        let pass = hours.try_acquire_at(&app("a"), 3, n(1), at).await.expect("decided");
        assert_eq!((pass.allowed, pass.remaining), (false, 0));
        let apps = [app("a"), app("b")];
        for answer in hours.increment_many(apps.iter().map(|app| (app, n(1))), at).await {
            assert_closed(answer);
        }
        assert_eq!(hours.current_at(&app("a"), at).await.expect("readable"), 0);
    }
    for at in [now.minus(3600), now.plus(3600)] {
        assert_eq!(hours.increment_at(&app("a"), n(3), at).await.expect("counted"), 3);
        assert_eq!(hours.increment_at(&app("a"), n(3), at).await.expect("counted"), 6);
    }
}

/// A store with a clock that is this many seconds ahead of the process.
#[derive(Clone, Debug)]
struct FastClock<S>(S, i64);

impl<S: Clone> FastClock<S> {
    fn store_time(&self, ours: Timestamp) -> Timestamp {
        let seconds = self.1.unsigned_abs();
        if self.1 < 0 { ours.plus(seconds) } else { ours.minus(seconds) }
    }

    fn key(&self, key: &WindowKey) -> WindowKey {
        let open = self.store_time(key.open.start)..self.store_time(key.open.end);
        WindowKey {
            start: self.store_time(key.start),
            expiry: self.store_time(key.expiry),
            open,
            ..key.clone()
        }
    }

    fn addition(&self, addition: &Addition) -> Addition {
        Addition { key: self.key(&addition.key), amount: addition.amount }
    }

    fn explain(&self, error: Error) -> Error {
        match *error.kind() {
            ErrorKind::WindowClosed { now } => {
                Error::new(ErrorKind::WindowClosed { now: Self(self.0.clone(), -self.1).store_time(now) })
            }
            _ => error,
        }
    }
}

impl<S: WindowStore + Clone> WindowStore for FastClock<S> {
    fn add<'a>(&'a self, additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>> {
        Box::pin(async move {
            let additions: Vec<_> = additions.iter().map(|addition| self.addition(addition)).collect();
            let answers = self.0.add(&additions).await.into_iter();
            answers.map(|answer| answer.map_err(|error| self.explain(error))).collect()
        })
    }

    fn add_once<'a>(&'a self, key: &'a WindowKey, token: VisitorId) -> StoreFuture<'a, (bool, u64)> {
        Box::pin(
            async move { self.0.add_once(&self.key(key), token).await.map_err(|error| self.explain(error)) },
        )
    }

    fn add_within<'a>(
        &'a self,
        addition: &'a Addition,
        earlier: Earlier<'a>,
        limit: u64,
    ) -> StoreFuture<'a, Acquired> {
        Box::pin(async move {
            let key = |ago: u32| self.key(&(earlier.key)(ago));
            let earlier = Earlier { key: &key, ..earlier };
            let answer = self.0.add_within(&self.addition(addition), earlier, limit).await;
            let answer = answer.map_err(|error| self.explain(error))?;
            Ok(Acquired { now: Self(self.0.clone(), -self.1).store_time(answer.now), ..answer })
        })
    }

    fn counts<'a>(&'a self, keys: &'a [WindowKey]) -> StoreFuture<'a, Vec<u64>> {
        Box::pin(async move {
            let keys: Vec<_> = keys.iter().map(|key| self.key(key)).collect();
            self.0.counts(&keys).await
        })
    }

    fn time<'a>(&'a self, key: &'a WindowKey) -> StoreFuture<'a, Timestamp> {
        Box::pin(
            async move { Ok(Self(self.0.clone(), -self.1).store_time(self.0.time(&self.key(key)).await?)) },
        )
    }
}

async fn the_store_clock_determines_the_window(store: impl WindowStore + Clone) {
    for (place, ahead) in (0_u32..).zip([0, 7200, -7200, 90 * 86_400, -86_400]) {
        let (hours, now) = hours(store.clone());
        // The offset is a multiple of the window width, so windows start at the same second of the hour.
        let other = WindowCounters::new(FastClock(store.clone(), ahead), hours.window());
        let name = app(&place.to_string());
        assert_eq!(hours.increment_at(&name, n(1), now).await.expect("counted"), 1);
        assert_eq!(other.current(&name).await.expect("readable"), 1);
        assert_eq!(other.increment(&name, n(1)).await.expect("counted"), 2);
        assert!(other.increment_once(&name, token(1)).await.expect("counted").is_new);
        let pass = other.try_acquire(&name, 4, n(1)).await.expect("decided");
        assert_eq!((pass.allowed, pass.remaining), (true, 0));
        assert!(pass.reset > pass.now && pass.reset <= pass.now.plus(3600));
        assert!(!other.try_acquire(&name, 4, n(1)).await.expect("decided").allowed);
        let (front, worker) = other.folding();
        let counted = async {
            let count = front.increment(&name, n(1)).await;
            drop(front);
            count
        };
        let (count, ()) = tokio::join!(counted, worker.run());
        assert_eq!(count.expect("counted"), 5);
        assert_eq!(hours.current_at(&name, now).await.expect("readable"), 5);
    }
}

async fn a_decision_has_the_store_time(store: impl WindowStore + Clone) {
    for (place, ahead) in (0_u32..).zip([0, 600, -600]) {
        // Both clocks are in the same window.
        let (hours, now) = hours(store.clone());
        let store = FastClock(store.clone(), ahead);
        let counters = WindowCounters::new(store.clone(), hours.window());
        let span = hours.window().span(now);
        let key = WindowKey {
            counter: "app=any".into(),
            group: None,
            width: 3600,
            start: span.start,
            expiry: span.end,
            open: span,
        };
        let time = async || store.time(&key).await.expect("readable");
        let name = app(&place.to_string());
        for (limit, allowed) in [(1, true), (1, false), (2, true)] {
            let before = time().await;
            let decided = counters.try_acquire(&name, limit, n(1)).await.expect("decided");
            let times = before..=time().await;
            assert_eq!(decided.allowed, allowed);
            assert!(times.contains(&decided.now), "{} is not in {times:?}", decided.now);
            let decided = counters.try_acquire_at(&name, 0, n(1), now).await.expect("decided");
            assert!((*times.start()..=time().await).contains(&decided.now));
        }
    }
}

async fn the_limit_per_second_holds_for_any_client_clock(store: impl WindowStore + Clone) {
    let second = Window::try_from(1).expect("not 0");
    for ahead in [0, 3, -3] {
        let seconds = WindowCounters::new(FastClock(store.clone(), ahead), second);
        let mut passed = BTreeMap::<_, u32>::new();
        for _ in 0..50 {
            let pass = seconds.try_acquire(&app(&ahead.to_string()), 5, n(1)).await.expect("decided");
            *passed.entry(pass.reset).or_default() += u32::from(pass.allowed);
        }
        assert!(passed.values().all(|passed| *passed <= 5), "{passed:?}");
        assert!(passed.values().sum::<u32>() >= 5, "{passed:?}");
    }
}

async fn a_folding_front_returns_the_same_results_as_individual_calls(store: impl WindowStore + Clone) {
    let (hours, now) = hours(store);
    let (front, worker) = hours.folding();
    let worker = tokio::spawn(worker.run());
    let mut clients = JoinSet::new();
    for client in 0..200 {
        let front = front.clone();
        clients.spawn(async move {
            let app = app(if client % 4 == 0 { "a" } else { "b" });
            let mut counts = Vec::new();
            for _ in 0..5 {
                counts.push((client % 4, front.increment_at(&app, n(1), now).await.expect("counted")));
            }
            counts
        });
    }
    let counts = clients.join_all().await.concat();
    // Each count must be returned to exactly one increment.
    for (of_a, all) in [(true, 250), (false, 750)] {
        let counts = counts.iter().filter(|(client, _)| (*client == 0) == of_a).map(|(_, count)| *count);
        let counts: BTreeSet<_> = counts.collect();
        assert!(counts.into_iter().eq(1..=all));
    }
    drop(front);
    worker.await.expect("no panic");
}
