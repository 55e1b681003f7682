//! Tests for the people of label values.

use std::num::NonZeroU32;

use counter_core::archive::Archive;
use counter_core::source::Commit;
use counter_core::visitor::{VisitorId, VisitorKey};
use counter_core::visits::store::Read;
use counter_core::visits::{Agent, LabelValues, PageHit};
use counter_core::{Counter, Counters, ErrorKind, Precision, Recorder, Stats, Store, Timestamp};

use super::dump::check_restored;
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

/// Returns the people since the start of this day, also if a new day has started meanwhile.
async fn people(stats: &Stats, at: Timestamp) -> [(&'static str, u64); 4] {
    people_of(stats, at, 2).await
}

/// Returns the people of this number of days.
async fn people_of(stats: &Stats, at: Timestamp, days: u64) -> [(&'static str, u64); 4] {
    let day = Precision::DAY;
    let names = PEOPLE.map(|(value, _)| name(&format!("label:plan:{value}")));
    let start = day.bucket(at).start;
    let uniques =
        stats.uniques_by_counter(&names, day, start..start.plus(86_400 * days)).await.expect("readable");
    let mut found = uniques.into_iter().map(|uniques| uniques.expect("readable").visitors);
    PEOPLE.map(|(value, _)| (value, found.next().expect("one for each")))
}

async fn people_of_values_are_counted_by_the_day(store: impl Store + Clone) {
    let now = Timestamp::now();
    let mut counters = visited(store).await;
    let stats = counters.stats();
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
    assert_eq!(people_of(&stats, before, 1).await[0], ("a", 1));

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
    let now = Timestamp::now();
    let counters = visited(store).await;
    check_restored(&counters.stats(), async |restored| assert_eq!(people(restored, now).await, PEOPLE)).await;
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
    assert_eq!(people_of(&stats, at, 1).await[0], ("a", 2));
    archive.copier(stats.grid()).copy_once(now).await.expect("both stores are available");
    let copied = far.visitor_counts(&[name("label:plan:a")], &[vec![Precision::DAY.bucket(at)]]).await;
    assert_eq!(copied.expect("readable")[0], [Ok(2)]);
}

async fn people_of_a_forgotten_value_count_again(store: impl Store + Clone) {
    let now = Timestamp::now();
    let mut other = visited(store.clone()).await;
    let mut counters = visited(store).await;
    let stats = counters.stats();
    stats.forget(&name("label:plan:a")).await.expect("the store is available");
    assert_eq!(people(&stats, now).await[0], ("a", 0));
    visit(&counters.recorder(), Some(1), Some("a"));
    counters.flush().await.expect("the store is available");
    assert_eq!(people(&stats, now).await[0], ("a", 1));
    // Another instance finds out with its next batch that the value was forgotten. First, it finds out about the time above.
    for _ in 0..2 {
        visit(&other.recorder(), Some(2), Some("a"));
        other.flush().await.expect("the store is available");
    }
    assert_eq!(people(&stats, now).await[0], ("a", 2));
    stats.forget(&name("label:plan:a")).await.expect("the store is available");
    for known in [0, 1] {
        visit(&other.recorder(), Some(2), Some("a"));
        other.flush().await.expect("the store is available");
        assert_eq!(people(&stats, now).await[0], ("a", known));
    }
}
