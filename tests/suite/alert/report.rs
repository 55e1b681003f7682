//! Reports: their contents, and that a report is sent only once by all instances.

use std::num::NonZeroU32;

use counter_alert::{Message, Report, ReportSchedule, RuleError, Watch};
use counter_core::time::Retention;
use counter_core::visitor::VisitorKey;
use counter_core::{AnyStore, Counters, MemoryStore, Precisions, Timestamp};

use super::inbox::Inbox;
use crate::stores;
use crate::support::{name, precision};

const DAY: u64 = 86_400;

fn counters(store: &AnyStore) -> Counters {
    let retained = Retention { precision: precision(3600), samples: 800.try_into().expect("not 0") };
    let retained = Precisions::new([retained, precision(86_400).into()]).expect("two");
    let counters = Counters::builder(store.clone()).precisions(retained.clone()).visitor_precisions(retained);
    counters.build().expect("good precisions")
}

/// Records hits on this day.
fn record(counters: &Counters, day: Timestamp, hits: &[(&str, u32)]) {
    let recorder = counters.recorder();
    for (counter, hits) in hits {
        if let Some(hits) = NonZeroU32::new(*hits) {
            recorder.record_at(recorder.counter(counter), None, day.plus(3600), hits);
        }
    }
}

fn today() -> Timestamp {
    precision(86_400).bucket(Timestamp::now()).start
}

fn schedule() -> ReportSchedule {
    let schedule = ReportSchedule::daily("day", name("hits")).title("<example.com>").places(2);
    schedule.share("errors", [name("status:5xx"), name("status:failed")])
}

fn only(mut messages: Vec<Message>) -> Report {
    match messages.pop() {
        Some(Message::Report(report)) if messages.is_empty() => report,
        other => panic!("{other:?} after {messages:?}"),
    }
}

#[tokio::test]
async fn a_report_has_the_numbers_and_changes_of_a_day() {
    let store = AnyStore::from(MemoryStore::new());
    let (mut counters, inbox, today) = (counters(&store), Inbox::default(), today());
    let builder = Watch::builder(counters.stats(), store.clone()).report(schedule());
    let mut watch = builder.deliver(inbox.receiver()).build().expect("a good schedule");
    // The day before the first pass is not reported.
    watch.check_once(today.minus(DAY).plus(7200)).await.expect("memory answers");
    assert_eq!(inbox.take(), []);

    let before = [("hits", 1000), ("status:5xx", 10), ("/", 700), ("/falls", 200), ("/gone", 100)];
    // The day before it was counted in full, because there were hits even earlier.
    record(&counters, today.minus(3 * DAY), &before);
    record(&counters, today.minus(2 * DAY), &before);
    let yesterday = [
        ("hits", 1250),
        ("status:5xx", 20),
        ("status:failed", 5),
        ("/", 700),
        ("/falls", 50),
        ("/<new>", 500),
    ];
    record(&counters, today.minus(DAY), &yesterday);
    record(&counters, today, &[("hits", 5), ("/", 5)]);
    record(&counters, today.minus(DAY), &[("label:referrer:b.example", 7), ("label:referrer:a.example", 9)]);
    let recorder = counters.recorder();
    for person in 0..3_u8 {
        let visitor = VisitorKey::new([7; 16]).visitor(&[&[person]]);
        recorder.record_at(recorder.counter("hits"), Some(visitor), today.minus(DAY), NonZeroU32::MIN);
    }
    counters.flush().await.expect("memory takes all");

    watch.check_once(today.plus(3599)).await.expect("memory answers");
    assert_eq!(inbox.take(), [], "late hits may come for an hour");
    watch.check_once(today.plus(3600)).await.expect("memory answers");
    watch.check_once(today.plus(7200)).await.expect("memory answers");
    let report = only(inbox.take());
    let hits = |row: &counter_alert::Row| (row.name.clone(), row.hits.now, row.hits.before);
    assert_eq!(report.hits.map(|hits| (hits.now, hits.before)), Some((1253, Some(1000))));
    assert_eq!(report.unread, [""; 0]);
    assert_eq!(report.visitors.map(|of| (of.now, of.before)), Some((3, None)));
    let rows = |rows: &[counter_alert::Row]| rows.iter().map(hits).collect::<Vec<_>>();
    let row = |name: &str, now, before| (name.to_owned(), now, Some(before));
    assert_eq!(rows(&report.shares), [row("errors", 25, 10)]);
    assert_eq!(rows(&report.pages), [row("/", 700, 700), row("/<new>", 500, 0)]);
    assert_eq!(rows(&report.risen), [row("/<new>", 500, 0)]);
    assert_eq!(rows(&report.fallen), [row("/gone", 0, 100), row("/falls", 50, 200)]);
    let values = [("a.example".to_owned(), 9), ("b.example".to_owned(), 7)];
    assert_eq!(report.labels, [("referrer".to_owned(), values.to_vec())]);

    let text = report.to_string();
    for line in [
        "       1,253  hits  +25 %",
        "           3  visitors",
        "         500  /<new>  new",
        "          50  /falls  −75 %",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let html = report.html();
    assert!(html.contains("/&lt;new&gt;") && html.contains("&lt;example.com&gt;: 20"), "{html}");
    assert!(!html.contains("<new>") && !html.contains("<example.com>") && !html.contains("http"), "{html}");
    let json = serde_json::to_value(Message::Report(report.clone())).expect("an object");
    assert_eq!((&json["type"], &json["hits"]["now"]), (&"report".into(), &1253.into()));
    let again: Message = serde_json::from_value(json).expect("a message");
    assert_eq!(again, Message::Report(report));
}

#[tokio::test]
async fn a_report_includes_readable_data_and_names_the_rest() {
    let (server, redis) = stores::redis().await;
    let store = AnyStore::from(redis);
    let (mut counters, inbox) = (counters(&store), Inbox::default());
    // A day is reported only if it has ended according to the store clock, so we need an earlier day.
    let today = today().minus(DAY);
    let builder = Watch::builder(counters.stats(), store.clone()).report(schedule());
    let mut watch = builder.deliver(inbox.receiver()).build().expect("a good schedule");
    watch.check_once(today.minus(3 * DAY).plus(7200)).await.expect("it answers");
    let hits = [("hits", 9), ("status:5xx", 1), ("/", 7), ("/about", 2), ("label:device:tv", 3)];
    for ago in [2, 3, 4] {
        record(&counters, today.minus(ago * DAY), &hits);
    }
    record(&counters, today.minus(2 * DAY), &[("label:device:phone", 5)]);
    counters.flush().await.expect("the store is there");
    let keys =
        ["status:5xx", "/about", "label:device:phone"].map(|name| format!("access:count:86400:{name}"));
    for key in &keys {
        server.command(&["SET", key, "no hash"]);
    }
    watch.check_once(today.minus(DAY).plus(7200)).await.expect("it answers");
    let mut report = only(inbox.take());
    report.unread.sort();
    let mut expected = keys.to_vec();
    expected.sort();
    assert_eq!(report.unread, expected);
    let hits = report.hits.map(|hits| (hits.now, hits.before));
    assert_eq!((hits, report.shares.len()), (Some((9, Some(9))), 0));
    assert_eq!(report.pages.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["/"]);
    assert_eq!((report.risen.len(), report.fallen.len()), (0, 0));
    assert_eq!(report.labels, [("device".to_owned(), vec![("tv".to_owned(), 3)])]);
    assert!(report.to_string().contains("\nunreadable\n"), "{report}");
    assert!(report.html().contains("Unreadable"));

    server.command(&["SET", "access:count:86400:hits", "no hash"]);
    watch.check_once(today.plus(7200)).await.expect("it answers");
    let report = only(inbox.take());
    assert_eq!(report.hits, None);
    assert!(report.unread.iter().any(|key| key == "access:count:86400:hits"), "{:?}", report.unread);
}

#[tokio::test]
async fn a_report_with_too_many_label_values_has_the_top_values() {
    let store = AnyStore::from(MemoryStore::new());
    let mut counters = Counters::builder(store.clone()).max_counters(102_000).build().expect("a good number");
    let (inbox, today) = (Inbox::default(), today());
    let builder = Watch::builder(counters.stats(), store.clone()).report(schedule());
    let mut watch = builder.deliver(inbox.receiver()).build().expect("a good schedule");
    watch.check_once(today.minus(DAY).plus(7200)).await.expect("memory answers");
    record(&counters, today.minus(DAY), &[("hits", 1), ("label:campaign:top", 3)]);
    for n in 0..101_000 {
        record(&counters, today.minus(DAY), &[(&format!("label:campaign:{n}"), 1)]);
    }
    counters.flush().await.expect("memory takes all");
    watch.check_once(today.plus(7200)).await.expect("memory answers");
    let report = only(inbox.take());
    assert_eq!(report.labels[0].1[0], ("top".to_owned(), 3));
    assert_eq!(report.unread, ["the rarest values of the label campaign"]);
}

stores::on! {
    [memory redis cluster sqlite postgres mariadb]
    { a_report_is_sent_once_by_three_watches }
}

async fn a_report_is_sent_once_by_three_watches(store: impl Into<AnyStore>) {
    let (store, inbox, today) = (store.into(), Inbox::default(), today());
    let mut instances: Vec<_> = (0..3).map(|_| counters(&store)).collect();
    let new_watch = |counters: &Counters| {
        let builder = Watch::builder(counters.stats(), store.clone()).report(schedule());
        builder.deliver(inbox.receiver()).build().expect("a good schedule")
    };
    let mut watches: Vec<_> = instances.iter().map(new_watch).collect();
    let mut sent = Vec::new();
    for ago in (0..10).rev() {
        // This must not be later than the store clock.
        let day = today.minus((ago + 1) * DAY);
        record(&instances[0], day.minus(DAY), &[("hits", 10)]);
        instances[0].flush().await.expect("the store is there");
        for hour in [1, 2] {
            let passes = watches.iter_mut().map(|watch| watch.check_once(day.plus(hour * 3600)));
            for checked in futures_util::future::join_all(passes).await {
                checked.expect("the store is there");
            }
        }
        sent.extend(inbox.take().into_iter().map(|message| message.id().to_owned()));
    }
    let expected: Vec<_> = (0..9).rev().map(|ago| format!("day:{}", today.minus((ago + 1) * DAY))).collect();
    assert_eq!(sent, expected);
}

#[test]
fn a_report_needs_a_sufficient_retention_of_days() {
    let store = AnyStore::from(MemoryStore::new());
    let counters =
        Counters::builder(store.clone()).precisions(Precisions::new([precision(3600)]).expect("one"));
    let counters = counters.build().expect("a good precision");
    let build = |schedule| Watch::builder(counters.stats(), store.clone()).report(schedule).build();
    assert!(build(schedule()).is_ok());
    let week = ReportSchedule::weekly("week", name("hits"));
    assert_eq!(build(week).expect_err("hours are kept for 5 days"), RuleError::Report("week".to_owned()));
    let twice = Watch::builder(counters.stats(), store.clone()).report(schedule()).report(schedule()).build();
    assert_eq!(twice.expect_err("one name"), RuleError::Duplicate("day".to_owned()));
}
