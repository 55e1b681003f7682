//! Alerts and reports over several sites while one of them is away.

use std::num::NonZeroU32;
use std::time::Duration;

use counter_alert::{AlertKind, AlertRule, Message, ReportSchedule, Watch};
use counter_core::fleet::Fleet;
use counter_core::visits::{Bin, Distribution, Measure, Measured};
use counter_core::{AnyStore, Counters, MemoryStore, Store, Timestamp};
use tests::{FaultProxy, LIMIT, RedisServer, until};

use super::inbox::Inbox;
use crate::support::{name, precision, store};

const HOUR: u64 = 3600;

/// Records hits with these response times, and flushes.
async fn record(store: impl Store, at: Timestamp, times: &[u64]) {
    let builder = Counters::builder(store).distributions(Distribution::precisions());
    let mut counters = builder.build().expect("good settings");
    let recorder = counters.recorder();
    let hits = [recorder.counter("hits").hit()];
    for ms in times {
        recorder.record_at(recorder.counter("hits"), None, at, NonZeroU32::MIN);
        let bins = [Bin::time(Duration::from_millis(*ms))];
        recorder.measure_at(Measured { hits: &hits, bins: &bins }, at);
    }
    counters.flush().await.expect("the store accepts batches");
}

#[tokio::test]
async fn while_a_site_is_away_rules_are_unknown_and_this_is_told_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let (eu, us, home) = (MemoryStore::new(), store(&proxy.url()).await, AnyStore::from(MemoryStore::new()));
    let start = precision(3600).bucket(Timestamp::now()).start.minus(3 * HOUR);
    let judged = |hours: u64| start.plus(hours * HOUR + Watch::LATENESS.as_secs());
    // Only the requests of `eu` are slow, and both sites together have more than ten hits.
    for at in [start, start.plus(HOUR)] {
        record(eu.clone(), at, &[900; 4]).await;
        record(store(&server.url()).await, at, &[10; 20]).await;
    }

    let fleet =
        Fleet::reader(MemoryStore::new(), "eu", eu).site("us", us).expect("two names").timeout(LIMIT / 20);
    let builder = Counters::builder(fleet).distributions(Distribution::precisions());
    let counters = builder.build().expect("good settings");
    let inbox = Inbox::default();
    let rules = [
        AlertRule::store_away("away", Duration::ZERO),
        AlertRule::below("quiet", name("hits"), precision(3600), 10),
        AlertRule::quantile_above("slow", name("hits"), precision(3600), Measure::Time, 0.5, 0.5),
    ];
    let watch = Watch::builder(counters.stats(), home).rules(rules).deliver(inbox.receiver());
    let mut watch = watch.build().expect("good rules");
    let watch_alerts = watch.alerts();
    watch.check_once(judged(1)).await.expect("both are read");
    assert_eq!(inbox.strings(), [""; 0]);

    proxy.refuse(true);
    let mut alerts = Vec::new();
    until("the site is away", LIMIT, async || {
        _ = watch.check_once(judged(2)).await;
        alerts.extend(inbox.alerts());
        alerts.len() == 2
    })
    .await;
    _ = watch.check_once(judged(2)).await;
    alerts.extend(inbox.alerts());
    alerts.sort_by(|one, other| one.rule.cmp(&other.rule));
    let [away, unknown] = &alerts[..] else { panic!("only the site: {alerts:?}") };
    assert!(away.rule == "away" && away.reason.contains("site us: "), "{away:?}");
    assert_eq!((&*unknown.rule, unknown.kind), ("unknown", AlertKind::Unknown));
    assert!(
        unknown.reason.starts_with("2 rules cannot be evaluated: site us cannot be read: "),
        "{unknown:?}"
    );
    let unread = async || {
        let rules = watch_alerts.read().await.expect("readable").rules;
        rules
            .into_iter()
            .map(|rule| rule.unread.map(|unread| (unread.to_string(), unread.since)))
            .collect::<Vec<_>>()
    };
    let second = Some(("site us cannot be read".to_owned(), start.plus(HOUR)));
    assert_eq!(unread().await, [None, second.clone(), second]);

    proxy.refuse(false);
    let (stats, hour) = (counters.stats(), precision(3600));
    until("the site is back", LIMIT, async || {
        stats.total(&name("hits"), hour, start..start.plus(HOUR)).await.is_ok()
    })
    .await;
    record(store(&server.url()).await, start.plus(2 * HOUR), &[10; 20]).await;
    watch.check_once(judged(3)).await.expect("both are read");
    let told: Vec<_> = inbox.alerts().into_iter().map(|alert| (alert.rule, alert.kind)).collect();
    assert_eq!(told.iter().filter(|(rule, _)| rule == "unknown").count(), 1, "{told:?}");
    assert!(told.contains(&("unknown".to_owned(), AlertKind::Resolved)), "{told:?}");
    assert_eq!(unread().await, [None, None, None]);
}

#[tokio::test]
async fn a_report_waits_for_a_site_that_is_away() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let (eu, us, home) = (MemoryStore::new(), store(&proxy.url()).await, AnyStore::from(MemoryStore::new()));
    let day = precision(86_400);
    let today = day.bucket(Timestamp::now()).start;
    for at in [today.minus(2 * 86_400), today.minus(86_400)] {
        record(eu.clone(), at.plus(HOUR), &[1; 3]).await;
        record(store(&server.url()).await, at.plus(HOUR), &[1; 4]).await;
    }
    let fleet =
        Fleet::reader(MemoryStore::new(), "eu", eu).site("us", us).expect("two names").timeout(LIMIT / 20);
    let counters = Counters::builder(fleet).build().expect("good settings");
    let inbox = Inbox::default();
    let schedule = ReportSchedule::daily("day", name("hits"));
    let watch = Watch::builder(counters.stats(), home).report(schedule).deliver(inbox.receiver());
    let mut watch = watch.build().expect("a good schedule");
    watch.check_once(today.minus(86_400).plus(2 * HOUR)).await.expect("both are read");
    assert_eq!(inbox.take(), []);

    proxy.refuse(true);
    // A failed report is retried after a while.
    let mut times = (0..).map(|n| today.plus(2 * HOUR + 600 * n));
    for at in times.by_ref().take(3) {
        _ = watch.check_once(at).await;
    }
    assert_eq!(inbox.take(), []);
    proxy.refuse(false);
    let (stats, hits) = (counters.stats(), name("hits"));
    until("the site is back", LIMIT, async || stats.total(&hits, day, today..today.plus(1)).await.is_ok())
        .await;
    watch.check_once(times.next().expect("there is always a later time")).await.expect("both are read");
    let messages = inbox.take();
    let [Message::Report(report)] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((report.hits.map(|hits| hits.now), &report.unread[..]), (Some(7), &[][..]), "{report}");
}
