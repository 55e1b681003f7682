//! Alert handles: reads, silences, rules in the store and test messages across processes.

use std::num::NonZeroU32;
use std::time::Duration;

use counter_alert::{
    AddRuleError, AlertKind, AlertRule, Alerts, AlertsStatus, Arrival, HistoryEntry, RuleError, Severity,
    SilenceError, Unit, Watch,
};
use counter_core::document::DocumentStore;
use counter_core::visits::{Distribution, Measure};
use counter_core::{AnyStore, Counters, ErrorKind, MemoryStore, Timestamp};
use futures_util::future::join_all;
use serde_json::json;

use super::inbox::Inbox;
use crate::stores;
use crate::support::{name, precision};

const HOUR: Duration = Duration::from_secs(3600);

fn kinds(inbox: &Inbox) -> Vec<AlertKind> {
    inbox.alerts().into_iter().map(|alert| alert.kind).collect()
}

fn rules() -> [AlertRule; 2] {
    let busy = AlertRule::above("busy", name("hits"), precision(3600), 10).raise_after(2);
    let errors = AlertRule::share_above("errors", [name("status:5xx")], name("hits"), precision(3600), 0.05)
        .at_least(20);
    [busy, errors]
}

fn watch(counters: &Counters, store: &AnyStore, receiver_inbox: &Inbox) -> Watch {
    let builder = Watch::builder(counters.stats(), store.clone()).deliver(receiver_inbox.receiver());
    rules().into_iter().fold(builder, |builder, rule| builder.rule(rule)).build().expect("good rules")
}

/// Records hits in a past hour, and returns the time at which this hour is evaluated.
async fn record(counters: &mut Counters, ago: u64, hits: u32) -> Timestamp {
    let start = precision(3600).bucket(Timestamp::now()).start.minus(3600 * (ago + 1));
    let hits = NonZeroU32::new(hits).expect("not 0");
    counters.recorder().record_at(counters.recorder().counter("hits"), None, start, hits);
    counters.flush().await.expect("the store is there");
    start.plus(3600 + Watch::LATENESS.as_secs())
}

async fn read(alerts: &Alerts) -> AlertsStatus {
    alerts.read().await.expect("the store is there")
}

fn arrivals(history: &[HistoryEntry]) -> Vec<(AlertKind, bool)> {
    let receiver_inbox =
        |entry: &HistoryEntry| (entry.alert.kind, matches!(entry.arrival, Arrival::Arrived(_)));
    history.iter().map(receiver_inbox).collect()
}

stores::on! {
    [memory redis redis_without_scripts cluster sqlite postgres mariadb]
    {
        changes_of_a_handle_are_visible_to_all_handles_and_watches
        concurrent_changes_all_succeed
        rules_in_the_store_are_evaluated_by_all_watches_until_they_are_removed
    }
}

async fn changes_of_a_handle_are_visible_to_all_handles_and_watches(store: impl Into<AnyStore>) {
    use AlertKind::{Raised, Resolved, Test};
    let (store, receiver_inbox) = (store.into(), Inbox::default());
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let mut watches: Vec<_> = (0..2).map(|_| watch(&counters, &store, &receiver_inbox)).collect();
    let (one, other) = (watches[0].alerts(), Alerts::new(store.clone(), rules()));
    let fresh = read(&other).await;
    assert_eq!((fresh.rules.len(), fresh.history.len()), (2, 0));
    assert!(
        fresh.rules.iter().all(|rule| rule.judged.is_none() && rule.last.is_none() && rule.raised.is_none())
    );

    let until = other.silence("busy", 2 * HOUR).await.expect("a rule").expect("it begins");
    let mut judged = Timestamp::MIN;
    for ago in [4, 3] {
        judged = record(&mut counters, ago, 11).await;
        for watch in &mut watches {
            watch.check_once(judged).await.expect("the store is there");
        }
    }
    assert_eq!(kinds(&receiver_inbox), []);
    let known = read(&one).await;
    let busy = &known.rules[0];
    assert_eq!(
        (&*busy.name, &*busy.condition, busy.unit),
        ("busy", "hits has more than 10 hits", Unit::Hits)
    );
    assert_eq!((busy.silenced, busy.counters.as_slice()), (Some(until), &[name("hits")][..]));
    let start = busy.raised.expect("it is raised");
    let numbers: Vec<_> = busy.buckets.iter().map(|of| (of.start, of.is_met, of.value, of.bound)).collect();
    let (before, start) = (start.minus(3600).as_unix(), start.as_unix());
    assert_eq!(numbers, [(before, true, 11.0, 10.0), (start, true, 11.0, 10.0)]);
    assert_eq!(busy.reason(), Some("hits has 11 hits, above 10"));
    assert_eq!(busy.judged.map(Timestamp::as_unix), Some(start + 3600));
    assert!(known.rules[1].last.is_none(), "it has too few hits");
    let [entry] = &known.history[..] else { panic!("{:?}", known.history) };
    assert_eq!((entry.arrival, entry.at, &entry.buckets), (Arrival::Silenced, start + 3615, &busy.buckets));

    // When the silence ends, the message is sent once, by the first watch that runs.
    assert_eq!(one.silence("busy", Duration::ZERO).await.expect("a rule"), None);
    assert_eq!(read(&other).await.history[0].arrival, Arrival::Waiting);
    for watch in &mut watches {
        watch.check_once(judged.plus(1)).await.expect("the store is there");
    }
    assert_eq!(kinds(&receiver_inbox), [Raised]);
    assert_eq!(arrivals(&read(&other).await.history), [(Raised, true)]);

    // A resolution during the silence is also sent, because receivers know about the alert.
    other.silence("busy", HOUR).await.expect("a rule");
    let judged = record(&mut counters, 2, 3).await;
    for watch in &mut watches {
        watch.check_once(judged).await.expect("the store is there");
    }
    let known = read(&one).await;
    assert_eq!((known.rules[0].raised, known.rules[0].reason()), (None, None));
    assert_eq!(arrivals(&known.history), [(Resolved, false), (Raised, true)]);
    one.silence("busy", Duration::ZERO).await.expect("a rule");
    one.test().await.expect("the store is there");
    let passes = watches.iter_mut().map(|watch| watch.check_once(judged.plus(1)));
    for checked in join_all(passes).await {
        checked.expect("the store is there");
    }
    for watch in &mut watches {
        watch.check_once(judged.plus(1)).await.expect("the store is there");
    }
    assert_eq!(kinds(&receiver_inbox), [Resolved, Test]);
    assert_eq!(arrivals(&read(&one).await.history), [(Test, true), (Resolved, true), (Raised, true)]);
}

async fn concurrent_changes_all_succeed(store: impl Into<AnyStore>) {
    let store = store.into();
    let names: Vec<_> = (0..6).map(|number| number.to_string()).collect();
    let above = |name: &String| AlertRule::above(name, crate::support::name("hits"), precision(60), 1);
    let handles: Vec<_> = names.iter().map(|_| Alerts::new(store.clone(), names.iter().map(above))).collect();
    let silences = handles.iter().zip(&names).map(|(alerts, name)| alerts.silence(name, HOUR));
    for silenced in join_all(silences).await {
        assert!(silenced.expect("there are six of them").is_some());
    }
    let tests = join_all(handles.iter().map(Alerts::test)).await;
    let known = read(&handles[0]).await;
    assert!(known.rules.iter().all(|rule| rule.silenced.is_some()), "{known:?}");
    let [test] = &known.history[..] else { panic!("{:?}", known.history) };
    assert!(tests.into_iter().all(|id| id.expect("the store is there") == test.alert.id));
}

async fn rules_in_the_store_are_evaluated_by_all_watches_until_they_are_removed(store: impl Into<AnyStore>) {
    use AlertKind::Raised;
    let (store, inbox) = (store.into(), Inbox::default());
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let stats = counters.stats();
    let mut watches: Vec<_> = (0..2).map(|_| watch(&counters, &store, &inbox)).collect();
    let (one, other) = (watches[0].alerts(), Alerts::new(store.clone(), []));
    let calm = |hits| AlertRule::below("calm", name("hits"), precision(3600), hits).severity(Severity::Info);
    let duplicate = |added: Result<(), AddRuleError>| matches!(added, Err(AddRuleError::Rule(RuleError::Duplicate(name))) if name == "busy" || name == "calm");
    other.add(&calm(5), &stats).await.expect("a rule");
    // A client that has not received the response tries again.
    one.add(&calm(5), &stats).await.expect("the same rule");
    assert!(duplicate(one.add(&calm(6), &stats).await), "a different rule");
    assert!(duplicate(one.add(&rules()[0], &stats).await), "a rule of the program");
    let odd = AlertRule::silent("odd", name("hits"), precision(7));
    let refused = one.add(&odd, &stats).await;
    assert!(matches!(refused, Err(AddRuleError::Rule(RuleError::Precision(..)))), "{refused:?}");
    // A name of a label that is too long for a counter would let every pass fail.
    let long = AlertRule::new_label("long", "a".repeat(190), precision(3600), 5);
    let refused = one.add(&long, &stats).await;
    assert!(matches!(refused, Err(AddRuleError::Rule(RuleError::Label(_)))), "{refused:?}");

    let judged = record(&mut counters, 3, 4).await;
    for watch in &mut watches {
        watch.check_once(judged).await.expect("the store is there");
    }
    let raised = inbox.alerts();
    assert_eq!(raised.iter().map(|alert| (&*alert.rule, alert.kind)).collect::<Vec<_>>(), [("calm", Raised)]);
    let states = |known: &AlertsStatus| -> Vec<_> {
        let rules = known.rules.iter();
        rules.map(|rule| (rule.name.clone(), rule.is_stored, rule.raised.is_some())).collect()
    };
    let all = [("busy", false, false), ("errors", false, false), ("calm", true, true)];
    let all = all.map(|(name, is_stored, is_raised)| (name.to_owned(), is_stored, is_raised));
    assert_eq!(states(&read(&one).await), all);
    assert_eq!(states(&read(&other).await), all[2..]);
    one.silence("calm", HOUR).await.expect("a rule in the store").expect("it begins");

    assert!(other.remove("calm").await.expect("the store is there"));
    assert!(!one.remove("calm").await.expect("the store is there"), "it is gone");
    assert!(!one.remove("busy").await.expect("the store is there"), "rules of the program stay");
    assert_eq!(states(&read(&one).await), all[..2]);
    let judged = record(&mut counters, 2, 3).await;
    for watch in &mut watches {
        watch.check_once(judged).await.expect("the store is there");
    }
    assert_eq!(inbox.alerts(), []);
    // A new rule with this name has neither the state nor the silence of the old one.
    one.add(&calm(6), &stats).await.expect("a rule");
    let known = read(&one).await;
    assert_eq!((known.rules[2].raised, known.rules[2].silenced, known.rules[2].judged), (None, None, None));
}

#[tokio::test]
async fn a_store_has_a_hundred_rules_and_a_watch_ignores_those_it_cannot_evaluate() {
    let store = MemoryStore::new();
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let (alerts, stats) = (Alerts::new(store.clone(), []), counters.stats());
    for number in 0..Alerts::MAX_STORED_RULES {
        let rule = AlertRule::silent(number.to_string(), name("hits"), precision(3600));
        alerts.add(&rule, &stats).await.expect("there is room");
    }
    let more = alerts.add(&AlertRule::silent("more", name("hits"), precision(3600)), &stats).await;
    let Err(AddRuleError::Store(error)) = more else { panic!("{more:?}") };
    assert!(matches!(error.kind(), ErrorKind::TooManyItems { max: 100 }), "{error}");

    // This process has a rule with a name that is in the store.
    let inbox = Inbox::default();
    let busy = AlertRule::above("7", name("hits"), precision(3600), 3);
    let builder = Watch::builder(counters.stats(), AnyStore::from(store)).rule(busy);
    let mut watch = builder.deliver(inbox.receiver()).build().expect("a good rule");
    let judged = record(&mut counters, 1, 4).await;
    watch.check_once(judged).await.expect("memory answers");
    assert_eq!(kinds(&inbox), [AlertKind::Raised]);
    let known = read(&watch.alerts()).await;
    assert_eq!(known.rules.iter().filter(|rule| rule.name == "7").count(), 1);
    assert_eq!(known.rules.len(), Alerts::MAX_STORED_RULES);
}

#[tokio::test]
async fn a_rule_of_a_newer_program_is_kept_and_does_not_affect_others() {
    let store = MemoryStore::new();
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let newer = r#"{"name":"newer","when":{"above_all":{"counter":"hits"}}}"#;
    let list = format!(r#"{{"version":1,"rules":[{newer}]}}"#);
    store.replace("rules", 0, list.as_bytes()).await.expect("memory answers").expect("there was none");
    let alerts = Alerts::new(store.clone(), []);
    let calm = AlertRule::below("calm", name("hits"), precision(3600), 5);
    alerts.add(&calm, &counters.stats()).await.expect("a rule");
    let same_name = AlertRule::below("newer", name("hits"), precision(3600), 5);
    let refused = alerts.add(&same_name, &counters.stats()).await;
    assert!(matches!(refused, Err(AddRuleError::Rule(RuleError::Duplicate(_)))), "{refused:?}");

    let inbox = Inbox::default();
    let mut watch = watch(&counters, &store.clone().into(), &inbox);
    let judged = record(&mut counters, 1, 4).await;
    watch.check_once(judged).await.expect("memory answers");
    assert_eq!(kinds(&inbox), [AlertKind::Raised]);
    let content = async || String::from_utf8(store.read("rules").await.expect("memory answers").content);
    assert!(content().await.expect("JSON").contains(newer), "{:?}", content().await);
    assert!(alerts.remove("newer").await.expect("memory answers"));
    assert!(!content().await.expect("JSON").contains("newer"));
}

#[tokio::test]
async fn no_rule_in_the_store_stops_the_others() {
    let store = MemoryStore::new();
    let builder = Counters::builder(store.clone()).distributions(Distribution::precisions());
    let mut counters = builder.build().expect("the defaults are fine");
    let (stats, alerts, longest) = (counters.stats(), Alerts::new(store.clone(), []), "x".repeat(200));
    let mut added = Vec::new();
    for (number, when) in [
        json!({"above": {"counter": longest, "hits": u64::MAX}}),
        json!({"below": {"counter": "label:a:b", "hits": u64::MAX}}),
        json!({"silent": {"counter": "view:/"}}),
        json!({"dead": {"counter": "/", "site": "hits", "days": u32::MAX}}),
        json!({"share_above": {"parts": vec!["hits"; 200], "whole": "hits", "share": 1e-300, "at_least": u64::MAX}}),
        json!({"quantile_above": {"counter": longest, "measure": "size", "q": 1, "value": 1e300}}),
        json!({"unusual": {"counter": longest}}),
        json!({"unusual": {"counter": "view:/", "false_alarms": 1e-12}}),
        json!({"unexpectedly_silent": {"counter": "label:a:b"}}),
        json!({"new_label": {"label": "a".repeat(32), "places": u32::MAX, "at_least": u64::MAX}}),
        json!({"store_away": {"seconds": u64::MAX}}),
        json!({"clock_skew_above": {"seconds": u64::MAX}}),
    ]
    .into_iter()
    .enumerate()
    {
        for precision in [1, 60, 3600, 86_400] {
            let config = json!({
                "name": format!("{number} by {precision} s"), "when": when, "precision": precision,
                "raise_after": u32::MAX, "resolve_after": u32::MAX, "pause": u64::MAX,
            });
            let rule: AlertRule = serde_json::from_value(config).expect("a rule");
            match alerts.add(&rule, &stats).await {
                Ok(()) => added.push(rule),
                Err(AddRuleError::Rule(RuleError::Precision(..))) => {}
                Err(error) => panic!("{}: {error}", rule.name()),
            }
        }
    }
    assert!(added.len() > 30, "{}", added.len());

    let inbox = Inbox::default();
    let mut watch = watch(&counters, &store.into(), &inbox);
    for ago in [3, 2] {
        let judged = record(&mut counters, ago, 11).await;
        watch.check_once(judged).await.expect("every rule can be evaluated");
    }
    assert!(inbox.alerts().iter().any(|alert| alert.rule == "busy" && alert.kind == AlertKind::Raised));
}

#[tokio::test]
async fn a_rule_that_is_added_again_starts_anew_even_if_it_is_about_the_process() {
    let store = MemoryStore::new();
    let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let (stats, inbox) = (counters.stats(), Inbox::default());
    let mut watch = watch(&counters, &store.into(), &inbox);
    let (alerts, waiting) = (watch.alerts(), AlertRule::pending_above("waiting", 0));
    counters.recorder().record(counters.recorder().counter("hits"), None);
    for _ in 0..2 {
        alerts.add(&waiting, &stats).await.expect("a rule");
        watch.check_once(Timestamp::now()).await.expect("memory answers");
        watch.check_once(Timestamp::now()).await.expect("memory answers");
        assert_eq!(kinds(&inbox), [AlertKind::Raised]);
        assert!(read(&alerts).await.rules[2].raised.is_some());
        assert!(alerts.remove("waiting").await.expect("memory answers"));
        watch.check_once(Timestamp::now()).await.expect("memory answers");
    }
    // With this name, a rule about buckets does not have the state of the process.
    let calm = AlertRule::below("waiting", name("hits"), precision(3600), 5);
    alerts.add(&calm, &stats).await.expect("a rule");
    assert_eq!(read(&alerts).await.rules[2].raised, None);
}

#[tokio::test]
async fn removing_the_copy_of_a_rule_of_the_program_keeps_its_state() {
    let store = AnyStore::from(MemoryStore::new());
    let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let other = Alerts::new(store.clone(), []);
    other.add(&rules()[0], &counters.stats()).await.expect("this process does not have it");
    let alerts = Alerts::new(store, rules());
    let until = alerts.silence("busy", HOUR).await.expect("a rule");
    assert!(until.is_some() && alerts.remove("busy").await.expect("memory answers"));
    assert_eq!(read(&alerts).await.rules[0].silenced, until);
}

#[tokio::test]
async fn a_silence_ends_exactly_at_the_given_time() {
    let (store, receiver_inbox) = (AnyStore::from(MemoryStore::new()), Inbox::default());
    let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let quiet = AlertRule::below("quiet", name("hits"), precision(3600), 10);
    let builder = Watch::builder(counters.stats(), store).rule(quiet).deliver(receiver_inbox.receiver());
    let mut watch = builder.build().expect("a good rule");
    let alerts = watch.alerts();
    let until = alerts.silence("quiet", HOUR).await.expect("a rule").expect("it begins");
    for now in [Timestamp::now(), until.minus(1)] {
        watch.check_once(now).await.expect("memory answers");
        assert_eq!(kinds(&receiver_inbox), [], "{now}");
    }
    assert!(read(&alerts).await.rules[0].raised.is_some());
    for (now, expected) in [(until, &[AlertKind::Raised][..]), (until.plus(1), &[])] {
        watch.check_once(now).await.expect("memory answers");
        assert_eq!(kinds(&receiver_inbox), expected, "{now}");
    }
    assert_eq!(read(&alerts).await.rules[0].silenced, None);
}

#[tokio::test]
async fn a_silence_has_a_maximum_duration_and_needs_an_existing_rule() {
    let alerts = Alerts::new(MemoryStore::new(), rules());
    let before = Timestamp::now();
    let until = alerts.silence("errors", Duration::MAX).await.expect("a rule").expect("it begins");
    let longest = Alerts::MAX_SILENCE.as_secs();
    assert!((before.plus(longest)..=Timestamp::now().plus(longest)).contains(&until), "{until}");
    let unknown = alerts.silence("calm", HOUR).await.expect_err("unknown rule");
    assert!(matches!(unknown, SilenceError::UnknownRule), "{unknown}");
    assert_eq!(alerts.rules().collect::<Vec<_>>(), ["busy", "errors"]);
}

#[test]
fn a_rule_describes_the_condition() {
    let (hits, hour) = (|| name("hits"), precision(3600));
    let slow = |measure, value| AlertRule::quantile_above("a", hits(), hour, measure, 0.99, value);
    for (rule, words) in [
        (AlertRule::below("a", hits(), hour, 5), "hits has fewer than 5 hits"),
        (AlertRule::silent("a", hits(), hour), "hits has no hits"),
        (rules()[1].clone(), "status:5xx are more than 5 % of hits, if there are at least 20 hits"),
        (slow(Measure::Time, 0.5), "the 99 % quantile of the time of hits is above 0.5 s"),
        (
            slow(Measure::Size, 4096.0).at_least(9),
            "the 99 % quantile of the size of hits is above 4096 bytes, if there are at least 9 values",
        ),
    ] {
        let alerts = Alerts::new(MemoryStore::new(), [rule]);
        let known =
            futures_util::FutureExt::now_or_never(alerts.read()).expect("memory is at once").expect("memory");
        assert_eq!(known.rules[0].condition, words);
    }
}
