//! Watches: raised and resolved alerts, and their delivery, which happens once if nothing fails.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use counter_alert::{AlertKind, AlertRule, DeliveryError, Message, RuleError, Severity, Watch};
use counter_core::document::{Document, DocumentStore};
use counter_core::stores::StoreFuture;
use counter_core::visits::{Bin, Distribution, Measure, Measured};
use counter_core::{AnyStore, Counters, MemoryStore, Stats, Timestamp};
use tokio::time::timeout;

use super::inbox::Inbox;
use crate::random::Random;
use crate::stores;
use crate::support::{name, precision};

fn counters(store: &AnyStore) -> Counters {
    let counters = Counters::builder(store.clone()).distributions(Distribution::precisions());
    counters.build().expect("the defaults are fine")
}

fn watch(stats: Stats, store: &AnyStore, rule: AlertRule, inbox: &Inbox) -> Watch {
    Watch::builder(stats, store.clone()).rule(rule).deliver(inbox.receiver()).build().expect("a good rule")
}

/// Returns a past hour, and the time at which it is evaluated.
fn hour(ago: u64) -> (Timestamp, Timestamp) {
    let start = precision(3600).bucket(Timestamp::now()).start.minus(3600 * (ago + 1));
    (start, start.plus(3600 + Watch::LATENESS.as_secs()))
}

fn record(counters: &Counters, counter: &str, at: Timestamp, hits: u32) {
    if let Some(hits) = NonZeroU32::new(hits) {
        counters.recorder().record_at(counters.recorder().counter(counter), None, at, hits);
    }
}

fn errors() -> AlertRule {
    let errors = [name("status:5xx"), name("status:failed")];
    AlertRule::share_above("errors", errors, name("hits"), precision(3600), 0.05).at_least(20)
}

#[tokio::test]
async fn a_share_is_evaluated_with_enough_hits_and_resolved_afterwards() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    let mut watch = watch(counters.stats(), &store, errors().severity(Severity::Critical), &inbox);
    for (ago, hits, failed) in [(5, 100, 5), (4, 19, 19), (3, 100, 6), (2, 10, 0), (1, 100, 1)] {
        let (start, judged) = hour(ago);
        record(&counters, "hits", start, hits);
        record(&counters, "status:5xx", start, failed);
        counters.flush().await.expect("memory takes all");
        watch.check_once(judged).await.expect("memory answers");
    }
    let expected = [
        "critical: errors: status:5xx and status:failed are 6 % of hits, above 5 %",
        "resolved: errors: status:5xx and status:failed are 1 % of hits, no longer above 5 %",
    ];
    assert_eq!(inbox.strings(), expected);
}

#[tokio::test]
async fn a_route_without_hits_is_dead_only_if_the_site_had_hits() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    let day = precision(86_400);
    // We need ten more days of hits later, which must not be ahead of the clock.
    let today = day.bucket(Timestamp::now()).start.minus(86_400 * 12);
    for ago in 1..40 {
        let start = today.minus(86_400 * ago);
        // The site was down for ten days.
        let site = if (5..15).contains(&ago) { 0 } else { 100 };
        record(&counters, "hits", start, site);
        record(&counters, "/used", start, u32::from(ago == 4));
        record(&counters, "/late", start, u32::from(ago == 3));
    }
    counters.flush().await.expect("memory takes all");
    let rules =
        ["/used", "/late", "/never"].map(|route| AlertRule::dead(route, name(route), name("hits"), 20));
    let builder = Watch::builder(counters.stats(), store.clone()).rules(rules);
    let mut watch = builder.deliver(inbox.receiver()).build().expect("good rules");
    let judged = today.plus(Watch::LATENESS.as_secs());
    watch.check_once(judged).await.expect("memory answers");
    // Only ten of the 20 days have hits, which is not enough to decide.
    assert_eq!(inbox.strings(), [""; 0]);
    for days in 1..=10 {
        record(&counters, "hits", today.plus(86_400 * (days - 1)), 100);
    }
    record(&counters, "/late", today.plus(86_400), 1);
    counters.flush().await.expect("memory takes all");
    watch.check_once(judged.plus(86_400 * 10)).await.expect("memory answers");
    assert_eq!(inbox.strings(), ["warning: /never: /never has no hits"]);
}

#[tokio::test]
async fn a_new_top_label_value_is_reported_once() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    let rule = AlertRule::new_label("from", "referrer", precision(3600), 3).at_least(5);
    let mut watch = watch(counters.stats(), &store, rule, &inbox);
    for ago in (1..=30).rev() {
        let (start, judged) = hour(ago);
        for (value, hits) in
            [("a.example", 50), ("b.example", 9), ("c.example", if ago < 4 { 20 } else { 1 })]
        {
            record(&counters, &format!("label:referrer:{value}"), start, hits);
        }
        // Three values are more frequent.
        record(&counters, "label:referrer:d.example", start, if ago < 3 { 8 } else { 0 });
        counters.flush().await.expect("memory takes all");
        watch.check_once(judged).await.expect("memory answers");
    }
    let expected = [
        "warning: from: c.example is new in the top 3 of referrer, with 20 hits",
        "resolved: from: no new value in the top 3 of referrer",
    ];
    assert_eq!(inbox.strings(), expected);
}

#[tokio::test]
async fn silent_counters_and_slow_requests_are_reported() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    let silent = AlertRule::silent("nobody", name("/old"), precision(3600)).raise_after(2);
    let slow =
        AlertRule::quantile_above("slow", name("hits"), precision(3600), Measure::Time, 0.9, 2.0).at_least(3);
    let builder = Watch::builder(counters.stats(), store.clone()).deliver(inbox.receiver());
    let mut watch = builder.rule(silent).rule(slow).build().expect("good rules");
    for (ago, old, seconds) in
        [(4, 1, &[1, 1, 1][..]), (3, 0, &[9, 9]), (2, 0, &[3, 3, 3]), (1, 1, &[1, 1, 1])]
    {
        let (start, judged) = hour(ago);
        record(&counters, "/old", start, old);
        let recorder = counters.recorder();
        let hits = [recorder.counter("hits").hit()];
        for seconds in seconds {
            let bins = [Bin::time(Duration::from_secs(*seconds))];
            recorder.measure_at(Measured { hits: &hits, bins: &bins }, start);
        }
        counters.flush().await.expect("memory takes all");
        watch.check_once(judged).await.expect("memory answers");
    }
    let told: Vec<_> =
        inbox.alerts().into_iter().map(|alert| (alert.rule, alert.kind, alert.start)).collect();
    let expected = [
        ("nobody", AlertKind::Raised, 2),
        ("slow", AlertKind::Raised, 2),
        ("nobody", AlertKind::Resolved, 1),
        ("slow", AlertKind::Resolved, 1),
    ];
    assert_eq!(told, expected.map(|(rule, kind, ago)| (rule.to_owned(), kind, hour(ago).0.as_unix())));
}

stores::on! {
    [memory redis redis_without_scripts cluster sqlite postgres mariadb]
    { three_watches_in_any_order_send_an_alert_once }
}

/// A hundred hours with three instances. A random instance sometimes skips passes, or is restarted.
async fn three_watches_in_any_order_send_an_alert_once(store: impl Into<AnyStore>) {
    let (store, inbox, mut random) = (store.into(), Inbox::default(), Random::storm("watches"));
    let mut instances: Vec<_> = (0..3).map(|_| counters(&store)).collect();
    let new_watch = |counters: &Counters| watch(counters.stats(), &store, errors(), &inbox);
    let mut watches: Vec<_> = instances.iter().map(new_watch).collect();
    let (mut expected, mut is_raised) = (Vec::new(), false);
    for ago in (1..100).rev() {
        let (start, judged) = hour(ago);
        let is_bad = random.among(0..4) == 0;
        let index = usize::try_from(random.among(0..3)).expect("one of three");
        record(&instances[index], "hits", start, 100);
        record(&instances[index], "status:failed", start, if is_bad { 50 } else { 2 });
        instances[index].flush().await.expect("the store is there");
        if is_bad != is_raised {
            expected.push((start.as_unix(), if is_bad { AlertKind::Raised } else { AlertKind::Resolved }));
            is_raised = is_bad;
        }
        if random.among(0..10) == 0 {
            // Replaces a process.
            watches[index] = new_watch(&instances[index]);
        }
        // A rule starts with the bucket before its first pass.
        if random.among(0..5) > 0 || ago == 99 {
            let passes = watches.iter_mut().map(|watch| watch.check_once(judged));
            for checked in futures_util::future::join_all(passes).await {
                checked.expect("the store is there");
            }
        }
    }
    for watch in &mut watches {
        watch.check_once(hour(1).1).await.expect("the store is there");
    }
    let told: Vec<_> = inbox.alerts().into_iter().map(|alert| (alert.start, alert.kind)).collect();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_message_is_retried_with_the_same_id_until_it_is_received() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    let mut watch = watch(counters.stats(), &store, errors(), &inbox);
    inbox.set_unavailable(true);
    let (start, judged) = hour(2);
    record(&counters, "hits", start, 100);
    record(&counters, "status:5xx", start, 100);
    counters.flush().await.expect("memory takes all");
    let checked = watch.check_once(judged).await.expect("memory answers");
    assert_eq!((checked.judged, checked.delivered, checked.undelivered), (1, 0, 1));
    // The receiver is unavailable for an hour. The alert is resolved in this time.
    record(&counters, "hits", hour(1).0, 100);
    counters.flush().await.expect("memory takes all");
    let mut tried = 0;
    for second in (0..3600).step_by(10) {
        let checked = watch.check_once(judged.plus(second)).await.expect("memory answers");
        assert_eq!(checked.delivered, 0, "{second}");
        tried += checked.undelivered;
    }
    // After 10 s, 20 s, 40 s, …, and then every ten minutes.
    assert_eq!(tried, 10);
    watch.check_once(hour(1).1).await.expect("memory answers");
    inbox.set_unavailable(false);
    let mut delivered = 0;
    for second in (10..=600).step_by(10) {
        delivered += watch.check_once(hour(1).1.plus(second)).await.expect("memory answers").delivered;
    }
    assert_eq!(delivered, 2);
    let kinds: Vec<_> = inbox.alerts().into_iter().map(|alert| alert.kind).collect();
    assert!(kinds.contains(&AlertKind::Raised) && kinds.contains(&AlertKind::Resolved) && kinds.len() == 2);
}

#[tokio::test]
async fn a_second_watch_delivers_the_message_of_a_stopped_watch() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    let started = Arc::new(Mutex::new(Vec::new()));
    let hangs = {
        let started = Arc::clone(&started);
        move |message: Message| {
            started.lock().expect("no panic").push(message.id().to_owned());
            std::future::pending::<Result<(), DeliveryError>>()
        }
    };
    let builder = Watch::builder(counters.stats(), store.clone()).rule(errors());
    let mut ended = builder.deliver(hangs).build().expect("a good rule");
    let (start, judged) = hour(1);
    record(&counters, "hits", start, 100);
    record(&counters, "status:5xx", start, 100);
    counters.flush().await.expect("memory takes all");
    let cut_off = timeout(Duration::from_millis(50), ended.check_once(judged)).await;
    assert!(cut_off.is_err(), "the receiver hangs");
    drop(ended);
    let mut other = watch(counters.stats(), &store, errors(), &inbox);
    // The delivery could still be in progress for a minute.
    for second in [0, 59] {
        let checked = other.check_once(judged.plus(second)).await.expect("memory answers");
        assert_eq!((checked.judged, checked.delivered), (0, 0), "{second}");
    }
    let checked = other.check_once(judged.plus(60)).await.expect("memory answers");
    assert_eq!(checked.delivered, 1);
    let ids: Vec<_> = inbox.alerts().into_iter().map(|alert| alert.id).collect();
    assert_eq!(ids, *started.lock().expect("no panic"));
}

/// A store that counts the bytes read from the alert state.
#[derive(Clone, Debug)]
struct Metered {
    store: AnyStore,
    bytes: Arc<AtomicUsize>,
}

impl Metered {
    fn meter(&self, name: &str, document: Document) -> Document {
        if name == "alerts" {
            self.bytes.fetch_add(document.content.len(), Ordering::Relaxed);
        }
        document
    }
}

impl DocumentStore for Metered {
    fn read<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Document> {
        Box::pin(async move { Ok(self.meter(name, self.store.read(name).await?)) })
    }

    fn read_newer<'a>(&'a self, name: &'a str, version: u64) -> StoreFuture<'a, Document> {
        Box::pin(async move { Ok(self.meter(name, self.store.read_newer(name, version).await?)) })
    }

    fn replace<'a>(&'a self, name: &'a str, version: u64, content: &'a [u8]) -> StoreFuture<'a, Option<u64>> {
        self.store.replace(name, version, content)
    }
}

#[tokio::test]
async fn the_shared_state_is_read_only_if_it_has_changed() {
    let store = Metered { store: AnyStore::from(MemoryStore::new()), bytes: Arc::default() };
    let (counters, inbox) = (counters(&store.store), Inbox::default());
    let watch = || {
        let builder = Watch::builder(counters.stats(), store.clone()).rule(errors());
        builder.deliver(inbox.receiver()).build().expect("a good rule")
    };
    let (mut first, mut second) = (watch(), watch());
    let read = |bytes| store.bytes.swap(bytes, Ordering::Relaxed);
    let judged = hour(2).1;
    assert_eq!(first.check_once(judged).await.expect("memory answers").judged, 1);
    assert_eq!(read(0), 0, "there was no document");
    second.check_once(judged.plus(1)).await.expect("memory answers");
    assert!(read(0) > 0);
    for watch in [&mut first, &mut second] {
        watch.check_once(judged.plus(2)).await.expect("memory answers");
    }
    assert_eq!(read(0), 0);
    // The second watch changes the state.
    assert_eq!(second.check_once(hour(1).1).await.expect("memory answers").judged, 1);
    first.check_once(hour(1).1.plus(1)).await.expect("memory answers");
    assert!(read(0) > 0);
}

#[tokio::test]
async fn versions_with_different_rules_keep_alerts_of_other_rules_for_a_week() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    let above =
        |name: &str, hits| AlertRule::above(name, "hits".parse().expect("a name"), precision(3600), hits);
    let (mut old, mut new) = (
        watch(counters.stats(), &store, above("old", 20), &inbox),
        watch(counters.stats(), &store, above("new", 10), &inbox),
    );
    for ago in (1..=10).rev() {
        let (start, judged) = hour(ago);
        record(&counters, "hits", start, 15);
        counters.flush().await.expect("memory takes all");
        for of_new in [false, true, false] {
            let watch = if of_new { &mut new } else { &mut old };
            watch.check_once(judged).await.expect("memory answers");
        }
    }
    assert_eq!(inbox.strings(), ["warning: new: hits has 15 hits, above 10"]);
    let known = async || store.read("alerts").await.expect("readable").content;
    let names_new = |content: &[u8]| content.windows(6).any(|text| text == b"\"new\":");
    let last = hour(1).1;
    old.check_once(last.plus(6 * 86_400)).await.expect("memory answers");
    assert!(names_new(&known().await));
    old.check_once(last.plus(8 * 86_400)).await.expect("memory answers");
    assert!(!names_new(&known().await));
}

#[tokio::test]
async fn a_panicking_receiver_does_not_stop_the_watch() {
    let store = AnyStore::from(MemoryStore::new());
    let mut counters = counters(&store);
    let panics =
        |_: Message| -> std::future::Ready<Result<(), DeliveryError>> { panic!("the receiver's own") };
    let builder = Watch::builder(counters.stats(), store.clone()).rule(errors());
    let mut watch = builder.deliver(panics).build().expect("a good rule");
    let (start, judged) = hour(1);
    record(&counters, "hits", start, 100);
    record(&counters, "status:5xx", start, 100);
    counters.flush().await.expect("memory takes all");
    let checked = watch.check_once(judged).await.expect("memory answers");
    assert_eq!((checked.delivered, checked.undelivered), (0, 1));
}

#[test]
fn invalid_rules_are_rejected_with_the_reason() {
    let store = AnyStore::from(MemoryStore::new());
    let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let (hits, minute) = (|| name("hits"), precision(60));
    let build_error = |rules: Vec<AlertRule>| {
        let builder = Watch::builder(counters.stats(), store.clone());
        let built = rules.into_iter().fold(builder, |builder, rule| builder.rule(rule)).build();
        built.expect_err("it cannot be watched")
    };
    let above = |name: &str| AlertRule::above(name, hits(), minute, 1);
    let share = |share| AlertRule::share_above("a", [hits()], hits(), minute, share);
    let quantile = |q| AlertRule::quantile_above("a", hits(), minute, Measure::Time, q, 1.0);
    assert_eq!(build_error(vec![above("")]), RuleError::Name(String::new()));
    assert_eq!(build_error(vec![above("a\nb")]), RuleError::Name("a\nb".to_owned()));
    assert_eq!(build_error(vec![above("a"), above("b"), above("a")]), RuleError::Duplicate("a".to_owned()));
    for rule in
        [share(1.1), share(f64::NAN), quantile(-0.1), AlertRule::share_above("a", [], hits(), minute, 0.1)]
    {
        assert_eq!(build_error(vec![rule]), RuleError::Number("a".to_owned()));
    }
    let odd = AlertRule::above("a", hits(), precision(7), 1);
    assert_eq!(build_error(vec![odd]), RuleError::Precision("a".to_owned(), precision(7)));
    assert_eq!(build_error(vec![quantile(0.9)]), RuleError::Precision("a".to_owned(), minute));
    let views = AlertRule::above("a", name("view:hits"), minute, 1);
    assert_eq!(build_error(vec![views]), RuleError::Precision("a".to_owned(), minute));
    assert_eq!(build_error((0..5001).map(|n| above(&n.to_string())).collect()), RuleError::TooMany);
    let words = build_error(vec![share(2.0)]).to_string();
    assert!(words.contains("between 0 and 1"), "{words}");
}

#[tokio::test]
async fn many_rules_need_few_commands_and_an_unknown_state_is_an_error() {
    let (server, redis) = stores::redis().await;
    let store = AnyStore::from(redis);
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    let (start, judged) = hour(1);
    let mut builder = Watch::builder(counters.stats(), store.clone()).deliver(inbox.receiver());
    for n in 0..1000 {
        let counter = format!("/page/{n}");
        record(&counters, &counter, start, n % 2 + 1);
        builder = builder.rule(AlertRule::above(format!("page {n}"), name(&counter), precision(3600), 1));
    }
    counters.flush().await.expect("the store is there");
    let mut watch = builder.build().expect("good rules");
    let before = commands(&server);
    let checked = watch.check_once(judged).await.expect("the store is there");
    assert_eq!((checked.judged, checked.delivered), (1000, 500));
    let sent: BTreeMap<_, _> = commands(&server);
    let grown = |command: &str| sent.get(command).unwrap_or(&0) - before.get(command).unwrap_or(&0);
    // Two writes of the state, and a write of the process progress.
    assert!(grown("hset") == 3 && grown("exec") == 0 && grown("time") <= 3, "{sent:?}");
    server.command(&["HSET", "access:document:alerts", "version", "7", "content", "no JSON"]);
    let error = watch.check_once(judged.plus(3600)).await.expect_err("it cannot be read");
    assert!(error.to_string().contains("alerts"), "{error}");
    let newer = "{\"version\":3,\"rules\":{}}";
    server.command(&["HSET", "access:document:alerts", "version", "8", "content", newer]);
    let error = watch.check_once(judged.plus(3600)).await.expect_err("it cannot be read");
    assert!(format!("{error:?}").contains("the document is newer than this program"), "{error:?}");
    let left = server.command(&["HGET", "access:document:alerts", "content"]).text();
    assert_eq!(left.as_deref(), Some(newer));
}

/// Returns the number of calls by command.
fn commands(server: &tests::RedisServer) -> BTreeMap<String, u64> {
    let text = server.command(&["INFO", "commandstats"]).text().expect("a text");
    let calls = |line: &str| {
        let (name, told) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), told.split(',').next()?.parse().ok()?))
    };
    text.lines().filter_map(calls).collect()
}
