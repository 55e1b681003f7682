//! Single delivery across three instances that are killed and paused, with failovers.

use std::collections::BTreeMap;
use std::time::Duration;

use counter_alert::{Alert, AlertKind, AlertRule, Watch};
use counter_core::{AnyStore, Counters, Timestamp};
use tests::sentinel::RedisSentinel;
use tests::until;
use tokio::time::timeout;

use super::inbox::Inbox;
use crate::random::Random;
use crate::support::{name, precision, store};

const HOURS: u64 = 60;

/// Returns an hour before `now`, and the time at which it is evaluated.
fn hour_before(now: Timestamp, ago: u64) -> (Timestamp, Timestamp) {
    let start = precision(3600).bucket(now).start.minus(3600 * (ago + 1));
    (start, start.plus(3600 + Watch::LATENESS.as_secs()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_arrive_with_a_single_id_despite_kills_and_failovers() {
    let mut servers = RedisSentinel::start();
    let store = AnyStore::from(store(&servers.url()).await);
    let (inbox, mut random) = (Inbox::default(), Random::storm("alerts"));
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let watch = |counters: &Counters| {
        let rule = AlertRule::above("busy", name("hits"), precision(3600), 10);
        let builder = Watch::builder(counters.stats(), store.clone()).rule(rule).deliver(inbox.receiver());
        builder.build().expect("a good rule")
    };
    // An hour may end while the test runs.
    let now = Timestamp::now();
    let hour = |ago| hour_before(now, ago);
    let mut watches: Vec<_> = (0..3).map(|_| watch(&counters)).collect();
    // A rule starts with the bucket before its first pass.
    watches[0].check_once(hour(HOURS + 1).1).await.expect("the store is there");
    let (mut expected, mut is_raised, mut sent) = (Vec::new(), false, Vec::new());
    for ago in (1..=HOURS).rev() {
        let (start, judged) = hour(ago);
        // The next flush also sends hits again that were lost. Until then, a pass would miss them. This does not help against an
        // old master that does not know yet that it was replaced, and that accepts hits in the meantime.
        match ago {
            45 => {
                servers.failover();
                servers.until_replicated();
            }
            20 => servers.kill_master(),
            _ => {}
        }
        let is_busy = random.among(0..3) == 0;
        let recorder = counters.recorder();
        let hits = if is_busy { 20 } else { 1 };
        recorder.record_at(recorder.counter("hits"), None, start, hits.try_into().expect("not 0"));
        until("the hits are stored", tests::LIMIT, async || counters.flush().await.is_ok()).await;
        if is_busy != is_raised {
            expected.push((start.as_unix(), if is_busy { AlertKind::Raised } else { AlertKind::Resolved }));
            is_raised = is_busy;
        }
        inbox.set_unavailable(random.among(0..4) == 0);
        let passes = watches.iter_mut().map(|watch| {
            // Kills about half of the passes at a random time.
            let lives = if random.among(0..2) == 0 { random.among(0..3000) } else { 5_000_000 };
            timeout(Duration::from_micros(lives), watch.check_once(judged))
        });
        let ended = futures_util::future::join_all(passes).await;
        for (index, ended) in ended.iter().enumerate() {
            if ended.is_err() {
                watches[index] = watch(&counters);
            }
        }
        sent.extend(inbox.alerts());
    }
    inbox.set_unavailable(false);
    // Messages that wait for the receiver, or are claimed by a killed watch, will be sent after a while.
    let (_, last) = hour(1);
    until("all alerts have arrived", tests::LIMIT, async || {
        for second in (0..1200).step_by(60) {
            _ = watches[0].check_once(last.plus(second).min(Timestamp::now())).await;
        }
        sent.extend(inbox.alerts());
        by_id(&sent).len() >= expected.len()
    })
    .await;
    // Alerts may arrive in any order, so we compare them sorted by bucket.
    let mut arrived: Vec<_> = by_id(&sent).into_values().map(|alert| (alert.start, alert.kind)).collect();
    arrived.sort_by_key(|(start, _)| *start);
    assert_eq!(arrived, expected);
}

/// Deduplicates alerts by id, like a receiver.
fn by_id(sent: &[Alert]) -> BTreeMap<&str, &Alert> {
    let mut unique = BTreeMap::new();
    for alert in sent {
        let first = unique.entry(&*alert.id).or_insert(alert);
        assert_eq!((first.start, first.kind), (alert.start, alert.kind), "one id for two messages");
    }
    unique
}
