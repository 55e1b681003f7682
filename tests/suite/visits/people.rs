//! Tests for the people of label values.

use std::num::NonZeroU32;

use counter_core::archive::Archive;
use counter_core::source::Commit;
use counter_core::visitor::{VisitorId, VisitorKey};
use counter_core::visits::store::Read;
use counter_core::visits::{Agent, LabelValues, PageHit};
use counter_core::{AnyStore, Counter, Counters, ErrorKind, Precision, Recorder, Stats, Store, Timestamp};

use crate::stores;
use crate::support::name;

stores::on! {
    [memory redis redis_in_shards redis_without_scripts sqlite postgres mariadb]
    {
        people_of_values_are_counted_by_the_day
        a_log_adds_the_same_people
        a_restored_dump_has_the_same_people
        people_of_old_days_are_archived
        people_of_a_forgotten_value_count_again
    }
}

const ONE: NonZeroU32 = NonZeroU32::MIN;

/// The visitors of hits, with values; `None` for a bot.
const VISITS: [(Option<u8>, Option<&str>); 8] = [
    (Some(1), Some("a")),
    (Some(1), Some("a")),
    (Some(2), Some("a")),
    (Some(1), Some("b")),
    (Some(3), None),
    (Some(4), None),
    (None, Some("c")),
    (None, Some("a")),
];

/// The people of the values: `(none)` is for hits without a value.
const PEOPLE: [(&str, u64); 4] = [("a", 2), ("b", 1), ("c", 0), ("(none)", 2)];

fn visitor(number: u8) -> VisitorId {
    VisitorKey::new([7; 16]).visitor(&[&[number]])
}

fn label(recorder: &Recorder) -> LabelValues {
    recorder.label_values("plan").expect("a name").people().by_page()
}

fn visit(recorder: &Recorder, person: Option<u8>, value: Option<&str>) {
    let hit = recorder.counter("hits").hit().visitor(person.map(visitor));
    recorder.page_hit(PageHit {
        page: Some(recorder.counter("/")),
        labels: &[label(recorder).note(value, ONE)],
        ..PageHit::new(hit, if person.is_some() { Agent::Human } else { Agent::Bot })
    });
}

async fn visited(store: impl Store) -> Counters {
    let mut counters = Counters::builder(store).build().expect("the defaults are fine");
    for (person, value) in VISITS {
        visit(&counters.recorder(), person, value);
    }
    counters.flush().await.expect("the store is available");
    counters
}

async fn people(stats: &Stats, at: Timestamp) -> [(&'static str, u64); 4] {
    let day = Precision::DAY;
    let names = PEOPLE.map(|(value, _)| name(&format!("label:plan:{value}")));
    let start = day.bucket(at).start;
    let uniques = stats.uniques_by_counter(&names, day, start..start.plus(1)).await.expect("readable");
    let mut found = uniques.into_iter().map(|uniques| uniques.expect("readable").visitors);
    PEOPLE.map(|(value, _)| (value, found.next().expect("one for each")))
}

async fn people_of_values_are_counted_by_the_day(store: impl Store + Clone) {
    let mut counters = visited(store).await;
    let (stats, now) = (counters.stats(), Timestamp::now());
    assert_eq!(people(&stats, now).await, PEOPLE);
    // People who return are the same, and those of a day before are others.
    visit(&counters.recorder(), Some(2), Some("a"));
    let recorder = counters.recorder();
    let values = label(&recorder);
    let before = now.minus(86_400);
    let hit = values.counter(values.note_at(Some("a"), before, ONE)).hit().visitor(visitor(9));
    recorder.record_at(hit.counter(), Some(visitor(9)), before, ONE);
    counters.flush().await.expect("the store is available");
    assert_eq!(people(&stats, now).await, PEOPLE);
    assert_eq!(people(&stats, before).await[0], ("a", 1));

    // Not known by the hour, or for pairs and views.
    let range = now.minus(3600)..now;
    let error = stats.uniques(&[name("label:plan:a")], Precision::HOUR, range.clone()).await;
    let error = error.expect_err("only kept by the day");
    assert!(matches!(error.kind(), ErrorKind::UnknownPrecision { .. }), "{error}");
    for counter in ["label:plan@:/ = a", "view:/"] {
        let error = stats.uniques_by_counter(&[name(counter)], Precision::DAY, range.clone()).await;
        let error = error.expect_err("never kept");
        assert_eq!(error.kind(), &ErrorKind::NoVisitors { counter: counter.to_owned() });
        assert!(stats.uniques(&[name(counter)], Precision::DAY, range.clone()).await.is_err());
    }
}

async fn a_log_adds_the_same_people(store: impl Store + Clone) {
    let counters = Counters::builder(store).build().expect("the defaults are fine");
    let (recorder, now) = (counters.recorder(), Timestamp::now());
    let name = "access.log".parse().expect("a name");
    let mut source = counters.sources().open(name).await.expect("the store is available");
    for (person, value) in VISITS {
        let (values, page) = (label(&recorder), recorder.counter("/"));
        let noted = values.note_at(value, now, ONE);
        let pair = values.pair(noted, page, now, ONE).expect("there are places");
        let counters = [recorder.counter("hits"), page, values.counter(noted), pair];
        let hits = counters.map(Counter::hit).map(|hit| hit.visitor(person.map(visitor)));
        let position = source.position();
        source.record(position..position + 1, now, &hits);
    }
    assert_eq!(source.commit().await.expect("the store is available"), Commit::Done);
    assert_eq!(people(&counters.stats(), now).await, PEOPLE);
}

async fn a_restored_dump_has_the_same_people(store: impl Store + Clone) {
    let counters = visited(store).await;
    let (((), memory), (_server, redis)) = (stores::memory().await, stores::redis_in_shards().await);
    for target in [AnyStore::from(memory), AnyStore::from(redis)] {
        let restored = Counters::builder(target).build().expect("the defaults are fine");
        let (mut restore, mut dump) = (restored.restore(), counters.stats().dump());
        while let Some(line) = dump.next().await.expect("readable") {
            restore.line(line.as_bytes()).await.expect("a good line");
        }
        restore.finish().await.expect("the dump is complete");
        assert_eq!(people(&restored.stats(), Timestamp::now()).await, PEOPLE);
    }
}

async fn people_of_old_days_are_archived(near: impl Store + Clone) {
    let (_folder, far) = stores::sqlite().await;
    let archive = Archive::new(near, far.clone());
    let mut counters = Counters::builder(archive.clone()).build().expect("the defaults are fine");
    let (recorder, stats, now) = (counters.recorder(), counters.stats(), Timestamp::now());
    let (at, values) = (now.minus(5 * 86_400), label(&recorder));
    let noted = values.counter(values.note_at(Some("a"), at, ONE));
    for person in [1, 2, 1] {
        recorder.record_at(noted, Some(visitor(person)), at, ONE);
    }
    counters.flush().await.expect("the store is available");
    assert_eq!(people(&stats, at).await[0], ("a", 2));
    archive.copier(stats.grid()).copy_once(now).await.expect("both stores are available");
    let copied = far.visitor_counts(&[name("label:plan:a")], &[vec![Precision::DAY.bucket(at)]]).await;
    assert_eq!(copied.expect("readable")[0], [Ok(2)]);
}

async fn people_of_a_forgotten_value_count_again(store: impl Store + Clone) {
    let mut counters = visited(store).await;
    let (stats, now) = (counters.stats(), Timestamp::now());
    stats.forget(&name("label:plan:a")).await.expect("the store is available");
    assert_eq!(people(&stats, now).await[0], ("a", 0));
    visit(&counters.recorder(), Some(1), Some("a"));
    counters.flush().await.expect("the store is available");
    assert_eq!(people(&stats, now).await[0], ("a", 1));
}
