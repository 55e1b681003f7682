//! Rules on the process: they also work if the store is down, and every process evaluates them.

use std::time::Duration;

use counter_alert::{AlertRule, Alerts, Arrival, Watch};
use counter_core::source::SourceName;
use counter_core::{AnyStore, Counters, MemoryStore, Timestamp};

use super::inbox::Inbox;
use crate::stores;

fn watch(
    counters: &Counters,
    store: &AnyStore,
    rules: impl IntoIterator<Item = AlertRule>,
    inbox: &Inbox,
) -> Watch {
    let builder = Watch::builder(counters.stats(), store.clone()).rules(rules);
    builder.deliver(inbox.receiver()).build().expect("good rules")
}

#[tokio::test]
async fn each_process_reports_when_the_store_is_unavailable_and_back() {
    let (server, redis) = stores::redis().await;
    let store = AnyStore::from(redis);
    let (inbox, now) = (Inbox::default(), Timestamp::now());
    let mut instances: Vec<_> =
        (0..2).map(|_| Counters::builder(store.clone()).build().expect("the defaults are fine")).collect();
    let rules = || [AlertRule::store_away("store", Duration::ZERO), AlertRule::pending_above("pending", 2)];
    let mut watches: Vec<_> =
        instances.iter().map(|counters| watch(counters, &store, rules(), &inbox)).collect();
    for (counters, watch) in instances.iter_mut().zip(&mut watches) {
        counters.flush().await.expect("the store is there");
        watch.check_once(now).await.expect("the store is there");
    }
    assert_eq!(inbox.strings(), [""; 0]);

    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for (counters, watch) in instances.iter_mut().zip(&mut watches) {
        let recorder = counters.recorder();
        for _ in 0..3 {
            recorder.record(recorder.counter("/"), None);
        }
        counters.flush().await.expect_err("it takes nothing");
        _ = watch.check_once(now.plus(10)).await;
    }
    let raised = inbox.alerts();
    let mut ids: Vec<_> = raised.iter().map(|alert| &alert.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4, "{raised:?}");
    let store_alerts =
        raised.iter().filter(|alert| alert.rule == "store" && alert.reason.contains("has not accepted hits"));
    assert_eq!(store_alerts.count(), 2, "{raised:?}");

    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    for (counters, watch) in instances.iter_mut().zip(&mut watches) {
        counters.flush().await.expect("it takes them now");
        watch.check_once(now.plus(20)).await.expect("it takes them now");
    }
    let mut strings = inbox.strings();
    strings.sort();
    let pending = "resolved: pending: 0 hits are waiting for the store, no longer above 2";
    let back = "resolved: store: the store is available again";
    assert_eq!(strings, [pending, pending, back, back]);
}

#[tokio::test]
async fn a_source_that_lags_is_reported_by_name() {
    let store = AnyStore::from(MemoryStore::new());
    let (counters, inbox) =
        (Counters::builder(store.clone()).build().expect("the defaults are fine"), Inbox::default());
    let mut watch = watch(&counters, &store, [AlertRule::source_behind("lag", 100)], &inbox);
    watch.check_once(Timestamp::now()).await.expect("memory answers");
    let name: SourceName = "access.log".parse().expect("a name");
    let mut source = counters.sources().open(name).await.expect("memory answers");
    source.set_end(100);
    watch.check_once(Timestamp::now()).await.expect("memory answers");
    assert_eq!(inbox.strings(), [""; 0]);
    source.set_end(101);
    watch.check_once(Timestamp::now()).await.expect("memory answers");
    assert_eq!(inbox.strings(), ["warning: lag: 101 positions of access.log are not counted, above 100"]);
}

#[tokio::test]
async fn a_silence_of_a_process_rule_applies_to_all_processes() {
    let store = AnyStore::from(MemoryStore::new());
    let (inbox, now) = (Inbox::default(), Timestamp::now());
    let instances: Vec<_> =
        (0..2).map(|_| Counters::builder(store.clone()).build().expect("the defaults are fine")).collect();
    let rules = || [AlertRule::pending_above("pending", 2)];
    let mut watches: Vec<_> =
        instances.iter().map(|counters| watch(counters, &store, rules(), &inbox)).collect();
    let other_handle = Alerts::new(store.clone(), rules());
    other_handle.silence("pending", Duration::from_secs(3600)).await.expect("a rule");
    for (counters, watch) in instances.iter().zip(&mut watches) {
        let recorder = counters.recorder();
        (0..3).for_each(|_| recorder.record(recorder.counter("/"), None));
        watch.check_once(now).await.expect("memory answers");
    }
    assert_eq!(inbox.strings(), [""; 0]);
    for (alerts, is_known) in
        [(&watches[0].alerts(), true), (&watches[1].alerts(), true), (&other_handle, false)]
    {
        let known = alerts.read().await.expect("memory answers");
        let rule = &known.rules[0];
        assert_eq!((rule.raised.is_some(), rule.precision), (is_known, None));
        assert_eq!(rule.condition, "more than 2 hits are waiting for the store");
        assert!(rule.silenced.is_some());
        assert_eq!(known.history.len(), usize::from(is_known));
    }
    other_handle.silence("pending", Duration::ZERO).await.expect("a rule");
    for watch in &mut watches {
        for second in 1..3 {
            watch.check_once(now.plus(second)).await.expect("memory answers");
        }
    }
    let sent = inbox.alerts();
    assert!(sent.len() == 2 && sent[0].id != sent[1].id, "{sent:?}");
    let history = watches[0].alerts().read().await.expect("memory answers").history;
    assert!(matches!(history[..], [ref one] if matches!(one.arrival, Arrival::Arrived(_))), "{history:?}");
}
