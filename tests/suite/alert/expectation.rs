//! Rules on expected values: their messages, and that a message is sent only once by all watches.

use std::num::NonZeroU32;
use std::time::Duration;

use counter_alert::{AlertKind, AlertRule, RuleError, Watch};
use counter_core::{AnyStore, Counters, MemoryStore, Precisions, Timestamp};
use tests::anomalies::simulated::{Random, START, traffic};
use tests::{FaultProxy, RedisServer};

use super::inbox::Inbox;
use crate::stores;
use crate::support::{name, precision, store};

/// Creates counters that retain a thousand minutes and a thousand hours.
fn counters(store: &AnyStore) -> Counters {
    let retained = Precisions::new([precision(60), precision(3600)]).expect("two precisions");
    let retained = retained.samples(NonZeroU32::new(1000).expect("not 0"));
    Counters::builder(store.clone()).precisions(retained).build().expect("a valid retention")
}

fn watch(counters: &Counters, store: &AnyStore, rules: &[AlertRule], inbox: &Inbox) -> Watch {
    let builder = Watch::builder(counters.stats(), store.clone()).rules(rules.iter().cloned());
    builder.deliver(inbox.receiver()).build().expect("good rules")
}

fn take(inbox: &Inbox) -> Vec<(String, AlertKind, u64)> {
    inbox.alerts().into_iter().map(|alert| (alert.rule, alert.kind, alert.start)).collect()
}

/// Returns the start of a past hour.
fn hour(ago: u64) -> Timestamp {
    precision(3600).bucket(Timestamp::now()).start.minus(3600 * (ago + 1))
}

/// Returns the time at which this hour, and all minutes in it, are evaluated.
fn judged(hour: Timestamp) -> Timestamp {
    hour.plus(3600 + Watch::LATENESS.as_secs())
}

fn record(counters: &Counters, counter: &str, at: Timestamp, hits: f64) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    if let Some(hits) = NonZeroU32::new(hits as u32) {
        counters.recorder().record_at(counters.recorder().counter(counter), None, at, hits);
    }
}

/// Returns the relative traffic in a past hour. The data starts on a Monday, four weeks before the latest
/// hour.
fn busy(ago: u64) -> f64 {
    traffic(START + (700 - ago) * 3600)
}

fn rules() -> Vec<AlertRule> {
    let hour = precision(3600);
    vec![
        AlertRule::unusual("either", name("hits"), hour),
        AlertRule::unusually_high("high", name("hits"), hour),
        AlertRule::unusually_low("low", name("hits"), hour),
        AlertRule::unexpectedly_silent("silent", name("hits"), hour),
    ]
}

stores::on! {
    [memory redis redis_without_scripts sqlite]
    { anomalies_are_sent_once_by_two_watches }
}

/// Four weeks of hours. Two watches run over the final days, and we replace a watch in between.
async fn anomalies_are_sent_once_by_two_watches(store: impl Into<AnyStore>) {
    let (store, inbox, mut random) = (store.into(), Inbox::default(), Random(5));
    let mut counters = counters(&store);
    let hits = |ago: u64, random: &mut Random| match ago {
        40 => 9000.0,
        20 | 21 => 0.0,
        _ => random.poisson(500.0 * busy(ago)),
    };
    for ago in (60..700).rev() {
        record(&counters, "hits", hour(ago), hits(ago, &mut random));
        if ago % 100 == 0 {
            counters.flush().await.expect("the store is there");
        }
    }
    let mut watches =
        [watch(&counters, &store, &rules(), &inbox), watch(&counters, &store, &rules(), &inbox)];
    for ago in (1..60).rev() {
        record(&counters, "hits", hour(ago), hits(ago, &mut random));
        counters.flush().await.expect("the store is there");
        if ago == 30 {
            watches[0] = watch(&counters, &store, &rules(), &inbox);
        }
        for watch in &mut watches[usize::from(ago % 3 == 0)..] {
            watch.check_once(judged(hour(ago))).await.expect("the store is there");
        }
    }
    use AlertKind::{Raised, Resolved};
    let mut sent = take(&inbox);
    sent.sort_by_key(|(rule, _, start)| (rule.clone(), *start));
    let expected = [
        ("either", Raised, 40),
        ("either", Resolved, 39),
        ("either", Raised, 21),
        ("either", Resolved, 19),
        ("high", Raised, 40),
        ("high", Resolved, 39),
        ("low", Raised, 21),
        ("low", Resolved, 19),
        ("silent", Raised, 21),
        ("silent", Resolved, 19),
    ];
    assert_eq!(sent, expected.map(|(rule, kind, ago)| (rule.to_owned(), kind, hour(ago).as_unix())));
}

#[tokio::test]
async fn an_alert_has_the_band_and_the_reason() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox, mut random) = (counters(&store), Inbox::default(), Random(9));
    for ago in (0..300).rev() {
        let hits = match ago {
            2 => 900.0,
            1 => 0.0,
            _ => random.poisson(100.0),
        };
        record(&counters, "hits", hour(ago), hits);
    }
    counters.flush().await.expect("memory takes all");
    let mut watch = watch(&counters, &store, &rules(), &inbox);
    for ago in (0..5).rev() {
        watch.check_once(judged(hour(ago))).await.expect("memory answers");
    }
    let alerts = inbox.alerts();
    let find = |rule: &str, kind| {
        alerts.iter().find(|alert| (&*alert.rule, alert.kind) == (rule, kind)).expect("told")
    };
    let high = find("high", AlertKind::Raised);
    let history = watch.alerts().read().await.expect("memory answers").history;
    let entry = history.iter().find(|entry| entry.alert.id == high.id).expect("it is kept");
    let explained = entry.buckets.last().expect("a bucket");
    let ((lower, upper), usual) = (explained.band.expect("a band"), explained.expected.expect("a value"));
    assert!((80.0..120.0).contains(&usual) && 40.0 < lower && upper < 200.0, "{explained:?}");
    assert_eq!((explained.model.as_deref(), explained.is_met), (Some("level"), true));
    assert!(explained.error.is_some_and(|error| (5.0..25.0).contains(&error)), "{explained:?}");
    assert_eq!((high.value, high.bound), (900.0, upper));
    let clock = |at: Timestamp| format!("{:02}:00", at.as_unix() / 3600 % 24);
    let between = |ago| format!("between {} and {} UTC", clock(hour(ago)), clock(hour(ago - 1)));
    let band = format!("usually {lower} to {upper}");
    assert_eq!(high.reason, format!("hits: 900 hits {}, {band}", between(2)));
    let over = find("high", AlertKind::Resolved);
    let normal =
        format!("hits: no longer high since {} UTC, with 0 hits {}, usually ", clock(hour(1)), between(1));
    assert!(over.reason.starts_with(&normal), "{}", over.reason);
    let silent = find("silent", AlertKind::Raised);
    assert!(
        silent.reason.starts_with("hits: no hits, although ") && silent.bound > 80.0,
        "{}",
        silent.reason
    );
    let again = format!("hits: hits again since {} UTC", clock(hour(0)));
    assert_eq!(find("silent", AlertKind::Resolved).reason, again);
}

#[tokio::test]
async fn a_holiday_is_neither_evaluated_nor_learned() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox, mut random) = (counters(&store), Inbox::default(), Random(2));
    let (last, minutes) = (hour(1), precision(60));
    for ago in (15..480).rev() {
        record(&counters, "hits", hour(ago), random.poisson(60_000.0 * busy(ago)));
    }
    // All these minutes are within the retention, even if the test runs late in an hour.
    for minute in minutes.starts(hour(14)..last.plus(3600)) {
        let usual = 1000.0 * traffic(START + 700 * 3600 - (hour(0).as_unix() - minute.as_unix()));
        record(&counters, "hits", minute, random.poisson(if minute < last { usual } else { usual / 10.0 }));
    }
    counters.flush().await.expect("memory takes all");
    let rule = AlertRule::unusually_low("low", name("hits"), minutes);
    for (holidays, is_sent) in [(vec![], true), (vec![last..last.plus(3600)], false)] {
        let builder = Watch::builder(counters.stats(), MemoryStore::new()).rule(rule.clone());
        let mut watch = builder.holidays(holidays).deliver(inbox.receiver()).build().expect("a good rule");
        for time in [last, last.plus(1800)] {
            watch.check_once(time.plus(Watch::LATENESS.as_secs())).await.expect("memory answers");
        }
        let raised = take(&inbox).into_iter().find(|(_, kind, _)| *kind == AlertKind::Raised);
        assert_eq!(raised.map(|(_, _, start)| start), is_sent.then_some(last.as_unix()));
    }
}

#[tokio::test]
async fn a_new_counter_raises_no_alert() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    let mut watch = watch(&counters, &store, &rules(), &inbox);
    for ago in (1..100).rev() {
        let hits = if ago > 60 { 0.0 } else { 1000.0 };
        record(&counters, "hits", hour(ago), hits);
        counters.flush().await.expect("memory takes all");
        watch.check_once(judged(hour(ago))).await.expect("memory answers");
    }
    assert_eq!(take(&inbox), []);
}

#[tokio::test]
async fn many_counters_need_few_round_trips_and_all_are_initialized() {
    let (server, redis) = stores::redis().await;
    let store = AnyStore::from(redis);
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    let counter = |n: usize| format!("/page/{n}");
    for ago in (1..45).rev() {
        for n in 0..600 {
            let hits = if ago == 1 && n % 2 == 0 { 5000.0 } else { 100.0 + ((n as u64 + ago) % 5) as f64 };
            record(&counters, &counter(n), hour(ago), hits);
        }
        counters.flush().await.expect("the store is there");
    }
    let rules: Vec<_> = (0..600)
        .map(|n| AlertRule::unusual(format!("page {n}"), name(&counter(n)), precision(3600)))
        .collect();
    let mut watch = watch(&counters, &store, &rules, &inbox);
    // At most 250 new counters are initialized per pass. The rest is evaluated by later passes.
    let mut all = 0;
    for (pass, expected) in [(0, 250), (10, 250), (20, 100), (30, 0)] {
        let checked = watch.check_once(judged(hour(1)).plus(pass)).await.expect("the store is there");
        assert_eq!(checked.judged, expected, "{pass}");
        all += checked.delivered;
    }
    assert_eq!(all, 300);
    take(&inbox);
    for n in 0..600 {
        record(&counters, &counter(n), hour(0), 101.0);
    }
    counters.flush().await.expect("the store is there");
    let before = server.calls("evalsha");
    let checked = watch.check_once(judged(hour(0))).await.expect("the store is there");
    assert_eq!((checked.judged, checked.delivered), (600, 300));
    // To replace the state, to remove delivered messages, and for the progress of the process.
    assert_eq!(server.calls("evalsha") - before, 3);
}

#[tokio::test]
async fn a_pass_over_two_thousand_counters_needs_four_round_trips() {
    const COUNTERS: u64 = 2000;
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let store = AnyStore::from(store(&proxy.url()).await);
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let (minute, inbox) = (precision(60), Inbox::default());
    let first = minute.bucket(Timestamp::now()).start.minus(600);
    let counter = |n: u64| format!("/page/{n}");
    for n in 0..COUNTERS {
        record(&counters, &counter(n), first, 5.0);
    }
    // A counter has an alert in every pass.
    for odd in (1..8).step_by(2) {
        record(&counters, &counter(7), first.plus(60 * odd), 20.0);
    }
    counters.flush().await.expect("the store is there");
    let rules = (0..COUNTERS).flat_map(|n| {
        let of = name(&counter(n));
        let above = AlertRule::above(format!("above {n}"), of.clone(), minute, 10);
        [above, AlertRule::unusual(format!("unusual {n}"), of, minute)]
    });
    let mut watch = watch(&counters, &store, &rules.collect::<Vec<_>>(), &inbox);
    let at = |minutes: u64| first.plus(60 * (minutes + 1) + Watch::LATENESS.as_secs());
    let mut started = 0;
    while started < 2 * COUNTERS {
        started += watch.check_once(at(0)).await.expect("the store is there").judged;
    }
    let mut fewest = u64::MAX;
    for (minutes, pause) in [(1, 200), (2, 400), (3, 800), (4, 1600), (5, 3200)] {
        proxy.reply_when_idle(Duration::from_millis(pause));
        let (trips, reads) = (proxy.round_trips(), server.calls("hmget"));
        let checked = watch.check_once(at(minutes)).await.expect("the store is there");
        assert_eq!((checked.judged, checked.delivered), (2 * COUNTERS, 1));
        // The additional reads are for the progress of all processes, and for the rules in the store. The state is not read,
        // because this watch has written it.
        assert_eq!(server.calls("hmget") - reads, COUNTERS + 2);
        fewest = fewest.min(proxy.round_trips() - trips);
        if fewest <= 4 {
            break;
        }
    }
    // To read the document and the hits, to replace the document, and to replace it without the delivered
    // message.
    assert_eq!(fewest, 4);
}

#[test]
fn an_invalid_false_alarm_rate_is_rejected() {
    let store = AnyStore::from(MemoryStore::new());
    let counters = counters(&store);
    for share in [0.0, 0.011, -1.0, f64::NAN] {
        let rule = AlertRule::unusual("odd", name("hits"), precision(60)).false_alarms(share);
        let rejected = Watch::builder(counters.stats(), store.clone()).rule(rule).build();
        assert_eq!(rejected.expect_err("it is no share"), RuleError::Number("odd".to_owned()));
    }
}
