//! Counters of windows, on every store, and when the store fails them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::stores::{BoxFuture, Namespace, Shards};
use counter_core::visitor::VisitorKey;
use counter_core::window::{Addition, Dimensions, Window, WindowCounters, WindowKey, WindowStore};
use counter_core::{Error, ErrorKind, RedisStore, Timestamp, VisitorId};
use tests::{FaultProxy, RedisCluster, RedisServer, Value, until};
use tokio::task::JoinSet;

use crate::stores::{self, Servers, without_scripts};
use crate::support::{expiry, store};

const LIMIT: Duration = tests::LIMIT;

/// The guide's page, of which the lines for `ACL SETUSER` are tested as they stand there.
const GUIDE: &str = include_str!("../../counter-core/src/guide/window.rs");

stores::on! {
    [memory redis redis_without_scripts cluster]
    then super::assert_that_all_expires;
    {
        an_increment_answers_what_the_counter_counts_then
        windows_count_apart_whatever_their_width_and_offset
        the_history_has_every_window_that_is_kept_zeros_too
        many_are_answered_as_if_they_had_come_one_by_one
        a_token_counts_once_in_a_window
        what_does_not_pass_is_not_counted
        an_instant_that_is_not_kept_counts_nowhere_and_lets_nothing_pass
        the_clock_of_the_store_says_which_window_it_is
        no_more_than_the_limit_passes_in_a_second_whatever_the_clock_of_the_client_says
        a_front_answers_everybody_as_if_he_had_come_alone
    }
}

fn assert_that_all_expires(servers: &impl Servers) {
    for server in servers.each() {
        for key in server.strings(&["KEYS", "*"]) {
            // -2: it has gone meanwhile.
            assert_ne!(server.int(&["TTL", &key]), -1, "{key}");
        }
    }
}

fn n(amount: u32) -> NonZeroU32 {
    NonZeroU32::new(amount).expect("not 0")
}

fn app(name: &str) -> Dimensions {
    Dimensions::new().text("app", name)
}

fn token(of: u32) -> VisitorId {
    VisitorKey::new([5; 16]).visitor(&[&of.to_le_bytes()])
}

/// Hours, and an instant in the middle of the current one, which so is the same for all of a test.
fn hours(store: impl WindowStore + Clone) -> (WindowCounters, Timestamp) {
    let now = Timestamp::now();
    let offset = u32::try_from(now.minus(1800).as_unix() % 3600).expect("less than an hour");
    let window = Window::HOUR.beginning_at(offset).expect("less");
    (WindowCounters::new(store, window), now)
}

async fn an_increment_answers_what_the_counter_counts_then(store: impl WindowStore + Clone) {
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

async fn windows_count_apart_whatever_their_width_and_offset(store: impl WindowStore + Clone) {
    let (hours, now) = hours(store.clone());
    let days = WindowCounters::new(store.clone(), Window::DAY);
    let shifted = hours.window().beginning_at((hours.window().offset() + 1) % 3600).expect("less");
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

async fn the_history_has_every_window_that_is_kept_zeros_too(store: impl WindowStore + Clone) {
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

async fn many_are_answered_as_if_they_had_come_one_by_one(store: impl WindowStore + Clone) {
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
        assert_eq!((once.first, once.count), (first, count));
    }
    assert_eq!(hours.increment_at(&app("a"), n(3), now).await.expect("counted"), 5);
    let once = hours.increment_once_at(&app("a"), token(3), now).await.expect("counted");
    assert_eq!((once.first, once.count), (true, 6));
}

async fn what_does_not_pass_is_not_counted(store: impl WindowStore + Clone) {
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
        assert_eq!((pass.passed, pass.limit, pass.remaining), (passed, limit, remaining));
        assert_eq!(pass.reset, hours.window().span(now).end);
    }
    assert_eq!(hours.current_at(&app("a"), now).await.expect("readable"), 11);
}

#[track_caller]
fn assert_closed<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let error = answer.expect_err("nothing is counted");
    assert!(matches!(error.kind(), ErrorKind::WindowClosed { .. }), "{error}");
}

async fn an_instant_that_is_not_kept_counts_nowhere_and_lets_nothing_pass(store: impl WindowStore + Clone) {
    let (hours, now) = hours(store);
    for at in [now.minus(2 * 3600), now.plus(2 * 3600)] {
        assert_closed(hours.increment_at(&app("a"), n(3), at).await);
        assert_closed(hours.increment_once_at(&app("a"), token(1), at).await);
        let pass = hours.try_acquire_at(&app("a"), 3, n(1), at).await.expect("decided");
        assert_eq!((pass.passed, pass.remaining), (false, 0));
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

/// A store as a process sees it whose clock is so many seconds behind that of the store.
#[derive(Clone, Debug)]
struct Ahead<S>(S, i64);

impl<S: Clone> Ahead<S> {
    fn theirs(&self, ours: Timestamp) -> Timestamp {
        let seconds = self.1.unsigned_abs();
        if self.1 < 0 { ours.plus(seconds) } else { ours.minus(seconds) }
    }

    fn key(&self, key: &WindowKey) -> WindowKey {
        let open = self.theirs(key.open.start)..self.theirs(key.open.end);
        WindowKey { start: self.theirs(key.start), expiry: self.theirs(key.expiry), open, ..key.clone() }
    }

    fn addition(&self, addition: &Addition) -> Addition {
        Addition { key: self.key(&addition.key), amount: addition.amount }
    }

    fn explain(&self, error: Error) -> Error {
        match *error.kind() {
            ErrorKind::WindowClosed { now } => {
                Error::new(ErrorKind::WindowClosed { now: Self(self.0.clone(), -self.1).theirs(now) })
            }
            _ => error,
        }
    }
}

impl<S: WindowStore + Clone> WindowStore for Ahead<S> {
    fn add<'a>(&'a self, additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>> {
        Box::pin(async move {
            let additions: Vec<_> = additions.iter().map(|addition| self.addition(addition)).collect();
            let answers = self.0.add(&additions).await.into_iter();
            answers.map(|answer| answer.map_err(|error| self.explain(error))).collect()
        })
    }

    fn add_once<'a>(
        &'a self,
        key: &'a WindowKey,
        token: VisitorId,
    ) -> BoxFuture<'a, Result<(bool, u64), Error>> {
        Box::pin(
            async move { self.0.add_once(&self.key(key), token).await.map_err(|error| self.explain(error)) },
        )
    }

    fn add_within<'a>(
        &'a self,
        addition: &'a Addition,
        limit: u64,
    ) -> BoxFuture<'a, Result<(bool, u64), Error>> {
        Box::pin(async move {
            let answer = self.0.add_within(&self.addition(addition), limit).await;
            answer.map_err(|error| self.explain(error))
        })
    }

    fn counts<'a>(&'a self, keys: &'a [WindowKey]) -> BoxFuture<'a, Result<Vec<u64>, Error>> {
        Box::pin(async move {
            let keys: Vec<_> = keys.iter().map(|key| self.key(key)).collect();
            self.0.counts(&keys).await
        })
    }

    fn time<'a>(&'a self, key: &'a WindowKey) -> BoxFuture<'a, Result<Timestamp, Error>> {
        Box::pin(async move { Ok(Self(self.0.clone(), -self.1).theirs(self.0.time(&self.key(key)).await?)) })
    }
}

async fn the_clock_of_the_store_says_which_window_it_is(store: impl WindowStore + Clone) {
    for (place, ahead) in (0_u32..).zip([0, 7200, -7200, 90 * 86_400, -86_400]) {
        let (hours, now) = hours(store.clone());
        // What is 0 or several windows off begins at the same second of the hour.
        let other = WindowCounters::new(Ahead(store.clone(), ahead), hours.window());
        let name = app(&place.to_string());
        assert_eq!(hours.increment_at(&name, n(1), now).await.expect("counted"), 1);
        assert_eq!(other.current(&name).await.expect("readable"), 1);
        assert_eq!(other.increment(&name, n(1)).await.expect("counted"), 2);
        assert!(other.increment_once(&name, token(1)).await.expect("counted").first);
        let pass = other.try_acquire(&name, 4, n(1)).await.expect("decided");
        assert_eq!((pass.passed, pass.remaining), (true, 0));
        assert!(pass.reset > pass.now && pass.reset <= pass.now.plus(3600));
        assert!(!other.try_acquire(&name, 4, n(1)).await.expect("decided").passed);
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

async fn no_more_than_the_limit_passes_in_a_second_whatever_the_clock_of_the_client_says(
    store: impl WindowStore + Clone,
) {
    let second = Window::try_from(1).expect("not 0");
    for ahead in [0, 3, -3] {
        let seconds = WindowCounters::new(Ahead(store.clone(), ahead), second);
        let mut passed = BTreeMap::<_, u32>::new();
        for _ in 0..50 {
            let pass = seconds.try_acquire(&app(&ahead.to_string()), 5, n(1)).await.expect("decided");
            *passed.entry(pass.reset).or_default() += u32::from(pass.passed);
        }
        assert!(passed.values().all(|passed| *passed <= 5), "{passed:?}");
        assert!(passed.values().sum::<u32>() >= 5, "{passed:?}");
    }
}

async fn a_front_answers_everybody_as_if_he_had_come_alone(store: impl WindowStore + Clone) {
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
    // Each count was answered to exactly one of them.
    for (of_a, all) in [(true, 250), (false, 750)] {
        let counts = counts.iter().filter(|(client, _)| (*client == 0) == of_a).map(|(_, count)| *count);
        let counts: BTreeSet<_> = counts.collect();
        assert!(counts.into_iter().eq(1..=all));
    }
    drop(front);
    worker.await.expect("no panic");
}

#[tokio::test]
async fn an_expiry_is_set_once_to_the_end_of_what_is_kept() {
    for server in [RedisServer::start(), without_scripts()] {
        let (hours, now) = hours(store(&server.url()).await);
        let end = hours.window().span(now).end.as_unix();
        let key = |app: &str| {
            let start = hours.window().span(now).start;
            format!("access:window:3600:app={app}:{start}")
        };
        hours.increment_at(&app("a"), n(1), now).await.expect("counted");
        assert_eq!(expiry(&server, &key("a")), end + 3600);
        // Another would keep it for longer, and does not move it.
        let longer = hours.clone().keep(9);
        longer.increment_at(&app("a"), n(1), now).await.expect("counted");
        longer.try_acquire_at(&app("a"), 9, n(1), now).await.expect("decided");
        longer.increment_once_at(&app("a"), token(1), now).await.expect("counted");
        assert_eq!((server.int(&["GET", &key("a")]), expiry(&server, &key("a"))), (4, end + 3600));
        assert_eq!(expiry(&server, &format!("{}:tokens", key("a"))), end + 9 * 3600);
        hours.increment_once_at(&app("a"), token(2), now).await.expect("counted");
        assert_eq!(expiry(&server, &format!("{}:tokens", key("a"))), end + 9 * 3600);
        let exactly = hours.clone().keep(0);
        exactly.try_acquire_at(&app("b"), 9, n(1), now).await.expect("decided");
        exactly.increment_once_at(&app("c"), token(1), now).await.expect("counted");
        assert_eq!([key("b"), key("c")].map(|key| expiry(&server, &key)), [end, end]);
    }
}

#[tokio::test]
async fn no_more_than_the_limit_passes_however_many_instances_ask_at_once() {
    for (server, tasks) in [(RedisServer::start(), 16), (without_scripts(), 4)] {
        let (limit, now) = (300, Timestamp::now());
        let mut clients = JoinSet::new();
        for _ in 0..4 {
            let days = WindowCounters::new(store(&server.url()).await, Window::DAY);
            for client in 0..tasks {
                let days = days.clone();
                clients.spawn(async move {
                    let mut passed = 0;
                    for _ in 0..(640 / tasks) {
                        let amount = 1 + client % 2;
                        let pass =
                            days.try_acquire_at(&app("a"), limit, n(amount), now).await.expect("decided");
                        passed += if pass.passed { amount } else { 0 };
                    }
                    passed
                });
            }
        }
        let passed: u32 = clients.join_all().await.into_iter().sum();
        assert_eq!(passed, limit);
        let days = WindowCounters::new(store(&server.url()).await, Window::DAY);
        assert_eq!(days.current_at(&app("a"), now).await.expect("readable"), u64::from(limit));
    }
}

#[tokio::test]
async fn in_a_cluster_the_counters_of_one_group_lie_in_one_slot() {
    let cluster = RedisCluster::start();
    let (hours, now) = hours(store(&cluster.url()).await);
    let pages: Vec<_> = (0..50).map(|page| app("shop").text("page", &page.to_string())).collect();
    let slots = || -> BTreeSet<_> {
        cluster
            .keys("*")
            .into_iter()
            .filter(|key| key.contains("window:"))
            .map(|key| cluster.slot_of(key))
            .collect()
    };
    let grouped = hours.clone().group_by("app");
    grouped.increment_many(pages.iter().map(|page| (page, n(1))), now).await;
    assert_eq!(slots().len(), 1);
    assert_eq!(grouped.current_at(&pages[7], now).await.expect("readable"), 1);
    hours.increment_many(pages.iter().map(|page| (page, n(1))), now.plus(3600)).await;
    assert!(slots().len() > 8, "{:?}", slots());
}

#[tokio::test]
async fn namespaces_and_shards_count_apart() {
    let server = RedisServer::start();
    let shop: Namespace = "shop:".parse().expect("a namespace");
    let shards = Shards::try_from(4).expect("a number");
    let sharded = RedisStore::builder().namespace(shop).shards(shards).connect(&server.url()).await;
    let (plain, now) = hours(store(&server.url()).await);
    let (sharded, _) = hours(sharded.expect("an address"));
    for (counters, sum) in [(&plain, 1), (&sharded, 1), (&plain, 2), (&sharded, 2)] {
        assert_eq!(counters.increment_at(&app("a"), n(1), now).await.expect("counted"), sum);
    }
}

#[tokio::test]
async fn a_counter_that_cannot_be_counted_is_refused_and_the_others_are_counted() {
    for server in [RedisServer::start(), without_scripts()] {
        let (hours, now) = hours(store(&server.url()).await);
        let key = format!("access:window:3600:app=bad:{}", hours.window().span(now).start);
        for poison in [["SADD", &key, "x"], ["SET", &key, "x"]] {
            server.command(&["DEL", &key]);
            server.command(&poison);
            server.command(&["EXPIRE", &key, "100"]);
            let (bad, good) = (app("bad"), app("good"));
            for list in [[&bad, &good], [&good, &bad]] {
                let answers = hours.increment_many(list.map(|app| (app, n(1))), now).await;
                for (app, answer) in list.into_iter().zip(answers) {
                    let kind = answer.map_err(|error| error.kind().clone());
                    assert_eq!(kind.is_ok(), app == &good);
                    assert!(kind.is_ok() || kind == Err(ErrorKind::Refused));
                }
            }
            assert!(hours.try_acquire_at(&bad, 9, n(1), now).await.is_err());
            assert!(hours.increment_once_at(&bad, token(1), now).await.is_err());
            assert!(hours.current_at(&bad, now).await.is_err() || poison[0] == "SADD");
        }
        assert_eq!(hours.current_at(&app("good"), now).await.expect("readable"), 4);
        assert_that_all_expires(&server);
    }
}

#[tokio::test]
async fn the_rights_that_the_guide_names_are_enough() {
    let server = RedisServer::start();
    let lines = GUIDE.lines().filter_map(|line| line.strip_prefix("//! ACL SETUSER "));
    let lines: Vec<_> = lines.map(|line| line.split(' ').collect::<Vec<_>>()).collect();
    assert_eq!(lines.len(), 2);
    for (words, scripts) in lines.iter().zip([true, false]) {
        server.command(&[&["ACL", "SETUSER"], &words[..]].concat());
        let url = format!("redis://{}:secret@127.0.0.1:{}", words[0], server.port());
        let store = RedisStore::builder().connect(&url).await.expect("an address");
        until("it answers", LIMIT, async || store.server().await.is_ok()).await;
        assert_eq!(store.server().await.expect("it answers").scripts, scripts);
        let (hours, now) = hours(store);
        assert_eq!(hours.increment_at(&app("a"), n(1), now).await.expect("counted"), 1);
        assert_eq!(hours.increment_at(&app("a"), n(1), now).await.expect("counted"), 2);
        assert!(hours.try_acquire_at(&app("a"), 3, n(1), now).await.expect("decided").passed);
        assert!(hours.increment_once_at(&app("a"), token(1), now).await.expect("counted").first);
        assert!(!hours.increment_once_at(&app("a"), token(1), now).await.expect("counted").first);
        assert_closed(hours.increment_at(&app("a"), n(1), now.minus(86_400)).await);
        assert_eq!(hours.current(&app("a")).await.expect("readable"), 4);
        assert_eq!(hours.history(&app("a"), now).await.expect("readable")[1].count, 4);
        assert_that_all_expires(&server);
        server.command(&["FLUSHALL"]);
    }
}

/// A server behind a proxy, and counters on both ways.
struct Place {
    server: RedisServer,
    proxy: FaultProxy,
    hours: WindowCounters,
    direct: WindowCounters,
    now: Timestamp,
}

impl Place {
    async fn open(server: RedisServer) -> Self {
        let proxy = FaultProxy::start(server.address()).await;
        let (direct, now) = hours(store(&server.url()).await);
        let hours = WindowCounters::new(store(&proxy.url()).await, direct.window());
        let place = Self { server, proxy, hours, direct, now };
        // The server learns the scripts.
        place.hours.try_acquire_at(&app("warm"), 1, n(1), now).await.expect("decided");
        place.hours.increment_once_at(&app("warm"), token(1), now).await.expect("counted");
        place.hours.increment_at(&app("warm"), n(1), now).await.expect("counted");
        place
    }

    async fn counted(&self, name: &str) -> u64 {
        self.direct.current_at(&app(name), self.now).await.expect("readable")
    }

    async fn increment(&self, name: &str) -> Result<u64, ErrorKind> {
        self.hours.increment_at(&app(name), n(1), self.now).await.map_err(|error| error.kind().clone())
    }

    /// Until the client has connected again.
    async fn until_connected(&self) {
        let there = async || self.increment("probe").await.is_ok();
        until("the client is connected", LIMIT, there).await;
    }
}

#[tokio::test]
async fn an_increment_whose_reply_was_lost_is_unconfirmed_and_counts_once() {
    for server in [RedisServer::start(), without_scripts()] {
        let place = Place::open(server).await;
        place.proxy.swallow_replies(1);
        assert_eq!(place.increment("a").await, Err(ErrorKind::Unconfirmed));
        place.until_connected().await;
        assert_eq!((place.counted("a").await, place.proxy.swallowed()), (1, 1));
        place.proxy.swallow_replies(1);
        let lost = place.hours.try_acquire_at(&app("b"), 9, n(3), place.now).await.expect_err("lost");
        assert_eq!(*lost.kind(), ErrorKind::Unconfirmed);
        assert!(lost.to_string().contains("may have counted"), "{lost}");
        place.until_connected().await;
        assert_eq!((place.counted("b").await, place.proxy.swallowed()), (3, 2));
    }
}

#[tokio::test]
async fn an_increment_that_never_arrived_is_unconfirmed_too_and_counts_nowhere() {
    let place = Place::open(RedisServer::start()).await;
    place.proxy.drop_requests(1);
    assert_eq!(place.increment("a").await, Err(ErrorKind::Unconfirmed));
    place.until_connected().await;
    assert_eq!((place.counted("a").await, place.proxy.dropped()), (0, 1));
}

#[tokio::test]
async fn what_the_server_cannot_do_now_is_tried_again_and_counts_once() {
    let place = Place::open(RedisServer::start()).await;
    for (at, error) in (1..).zip(["LOADING Redis is loading", "BUSY Redis is busy", "CLUSTERDOWN it is"]) {
        place.proxy.reply_with(2, error);
        assert_eq!(place.increment("a").await, Ok(at), "{error}");
    }
    place.proxy.reply_with(1000, "LOADING Redis is loading");
    assert_eq!(place.increment("a").await, Err(ErrorKind::Refused));
    // That will not change by itself.
    let before = place.proxy.answered();
    place.proxy.reply_with(9, "OOM command not allowed");
    assert_eq!(place.increment("a").await, Err(ErrorKind::Refused));
    assert!(place.proxy.answered() <= before + 1);
    place.proxy.reply_with(0, "");
    assert_eq!(place.counted("a").await, 3);
}

#[tokio::test]
async fn a_token_counts_once_however_often_the_reply_is_lost() {
    for server in [RedisServer::start(), without_scripts()] {
        let place = Place::open(server).await;
        place.proxy.swallow_replies(1);
        let trying = async || place.hours.increment_once_at(&app("a"), token(1), place.now).await.is_ok();
        until("the token is counted", LIMIT, trying).await;
        assert_eq!((place.counted("a").await, place.proxy.swallowed()), (1, 1));
    }
}

#[tokio::test]
async fn a_server_that_lacks_its_replicas_is_asked_again_until_it_has_them() {
    for server in [RedisServer::start(), without_scripts()] {
        let place = Place::open(server).await;
        let lack = |replicas| place.server.command(&["CONFIG", "SET", "min-replicas-to-write", replicas]);
        lack("1");
        assert_eq!(place.increment("a").await, Err(ErrorKind::Refused));
        let refusing = async || {
            let errors = place.server.command(&["INFO", "errorstats"]).text().expect("a text");
            errors.contains("NOREPLICAS")
        };
        // It asks again for two seconds, in which a busy machine may do nothing else.
        let mut answer = Err(ErrorKind::Refused);
        let counts = async || {
            lack("1");
            place.server.command(&["CONFIG", "RESETSTAT"]);
            let meanwhile = async {
                until("it has refused", LIMIT, refusing).await;
                lack("0");
            };
            (answer, ()) = tokio::join!(place.increment("a"), meanwhile);
            answer != Err(ErrorKind::Refused)
        };
        until("it counts", LIMIT, counts).await;
        assert_eq!(answer, Ok(1));
        assert!(place.hours.try_acquire_at(&app("a"), 2, n(1), place.now).await.expect("decided").passed);
    }
}

#[tokio::test]
async fn a_killed_server_is_told_at_once_and_counting_goes_on_with_the_next() {
    let mut place = Place::open(RedisServer::start()).await;
    place.server.kill();
    assert_eq!(place.increment("a").await, Err(ErrorKind::Unconfirmed));
    let reading = place.hours.current_at(&app("a"), place.now).await.expect_err("nobody is there");
    assert_eq!(*reading.kind(), ErrorKind::Unavailable);
    place.server.restart();
    place.until_connected().await;
    assert_eq!(place.increment("a").await, Ok(1));
}

#[tokio::test]
async fn all_who_share_a_call_are_told_that_it_is_unconfirmed() {
    let place = Place::open(RedisServer::start()).await;
    let (front, worker) = place.hours.folding();
    let worker = tokio::spawn(worker.run());
    place.proxy.swallow_replies(1);
    let mut clients = JoinSet::new();
    for _ in 0..10 {
        let (front, now) = (front.clone(), place.now);
        clients.spawn(async move { front.increment_at(&app("a"), n(1), now).await });
    }
    for answer in clients.join_all().await {
        assert_eq!(*answer.expect_err("lost").kind(), ErrorKind::Unconfirmed);
    }
    place.until_connected().await;
    assert_eq!((place.counted("a").await, place.proxy.swallowed()), (10, 1));
    assert_eq!(front.increment_at(&app("a"), n(1), place.now).await.expect("counted"), 11);
    worker.abort();
    drop(worker.await);
    let ended = front.increment_at(&app("a"), n(1), place.now).await.expect_err("nobody sends");
    assert_eq!(*ended.kind(), ErrorKind::Refused);
}

#[tokio::test]
async fn those_that_wait_at_the_same_time_share_a_call() {
    let place = Place::open(RedisServer::start()).await;
    let (front, worker) = place.hours.folding();
    let worker = tokio::spawn(worker.run());
    let before = place.server.command_calls();
    for round in 1..=4 {
        place.proxy.hold_calls(1);
        let mut clients = JoinSet::new();
        for _ in 0..500 {
            let (front, now) = (front.clone(), place.now);
            clients.spawn(async move { front.increment_at(&app("a"), n(1), now).await.expect("counted") });
        }
        // On the one thread that there is each of them has asked by then.
        until("a call is under way", LIMIT, async || place.proxy.held() == round).await;
        place.proxy.release();
        clients.join_all().await;
    }
    assert_eq!(place.counted("a").await, 2000);
    // EVALSHA, SET and INCRBY, in each round of the first and of all who came while it was under way.
    let calls = place.server.command_calls() - before;
    assert!(calls <= 4 * 2 * 3 + 1, "{calls}");
    drop(front);
    worker.await.expect("no panic");
}

#[tokio::test]
async fn nothing_that_names_somebody_is_in_the_store() {
    let server = RedisServer::start();
    let (hours, now) = hours(store(&server.url()).await);
    let key = VisitorKey::random();
    let key_of_address = key.visitor(&[b"192.0.2.77"]);
    let dimensions = app("shop").visitor("address", key_of_address);
    hours.increment_at(&dimensions, n(1), now).await.expect("counted");
    hours.increment_once_at(&dimensions, key.visitor(&[b"ann@example.org"]), now).await.expect("counted");
    let keys = server.strings(&["KEYS", "*"]);
    assert_eq!(keys.len(), 2);
    for key in &keys {
        assert!(!key.contains("192") || key.contains('@'), "{key}");
        assert!(!key.contains("192.0.2.77"), "{key}");
        let id = u128::from_be_bytes(*key_of_address.as_bytes());
        assert!(!key.contains(&format!("{id:032x}")), "what is the same in all windows: {key}");
    }
    let tokens = keys.iter().find(|key| key.ends_with(":tokens")).expect("the tokens");
    let Value::Array(members) = server.command(&["SMEMBERS", tokens]) else { panic!("a set") };
    assert!(matches!(&members[..], [Value::Bulk(token)] if token.len() == 16), "{members:?}");
}
