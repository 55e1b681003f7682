//! Goals, and how often they are reached.

use std::num::NonZeroU32;

use counter_alert::goal::{Goal, GoalError, GoalResult, Goals, Reached};
use counter_core::document::DocumentStore;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, ErrorKind, MemoryStore, Precision, Store, Timestamp};

use crate::stores;
use crate::support::name;

stores::on! {
    [memory redis sqlite postgres mariadb]
    {
        goals_have_people_and_a_conversion_in_both_periods
    }
}

fn goal(counter: &str, text: &str) -> Goal {
    Goal::new(name(counter), text).expect("a name")
}

/// Records hits of people, by their numbers.
fn record(counters: &Counters, counter: &str, people: std::ops::Range<u32>, at: Timestamp) {
    let recorder = counters.recorder();
    for number in people {
        let visitor = VisitorKey::new([7; 16]).visitor(&[&number.to_le_bytes()]);
        recorder.record_at(recorder.counter(counter), Some(visitor), at, NonZeroU32::MIN);
    }
}

async fn reached(goals: &Goals, counters: &Counters, now: Timestamp) -> Vec<GoalResult> {
    let day = Precision::DAY;
    let today = day.bucket(now).start;
    let week = today.minus(6 * 86_400)..today.plus(1);
    goals.reached(&counters.stats(), &name("hits"), day, week).await.expect("readable")
}

/// Returns hits, people and the percentage of the site.
fn numbers(reached: &Reached) -> (u64, Option<u64>, Option<u64>) {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
    let percent = reached.conversion().map(|share| (100.0 * share).round() as u64);
    (reached.hits, reached.people.map(|people| people.visitors), percent)
}

async fn goals_have_people_and_a_conversion_in_both_periods(store: impl Store + DocumentStore + Clone) {
    let goals = Goals::new(store.clone());
    let mut counters = Counters::builder(store).build().expect("the defaults are fine");
    let now = Timestamp::now();
    let days_ago = |days: u64| now.minus(86_400 * days);
    assert_eq!(reached(&goals, &counters, now).await, []);
    for (counter, text) in [
        ("signups", "Sign up"),
        ("new", "New"),
        ("calls", "Called"),
        ("never", "Never"),
        ("signups", "Signed up"),
    ] {
        goals.mark(&goal(counter, text)).await.expect("there is room");
    }
    // The site and the signups have been counted for three weeks.
    for days in [15, 9, 2] {
        record(&counters, "hits", 0..40, days_ago(days));
    }
    record(&counters, "signups", 0..4, days_ago(15));
    record(&counters, "signups", 0..5, days_ago(9));
    record(&counters, "signups", 0..10, days_ago(2));
    record(&counters, "signups", 0..10, days_ago(1));
    record(&counters, "new", 5..7, days_ago(1));
    // Hits from a program that does not know visitors.
    let recorder = counters.recorder();
    recorder.record_at(recorder.counter("calls"), None, days_ago(1), NonZeroU32::new(3).expect("not 0"));
    counters.flush().await.expect("the store is available");

    let found = reached(&goals, &counters, now).await;
    let names: Vec<_> = found.iter().map(|found| (&**found.goal.counter(), found.goal.name())).collect();
    assert_eq!(names, [("signups", "Signed up"), ("new", "New"), ("calls", "Called"), ("never", "Never")]);
    let numbers_now: Vec<_> =
        found.iter().map(|found| numbers(found.now.as_ref().expect("readable"))).collect();
    assert_eq!(
        numbers_now,
        [(20, Some(10), Some(25)), (2, Some(2), Some(5)), (3, None, None), (0, Some(0), Some(0))]
    );
    let before: Vec<_> = found.iter().map(|found| found.before.as_ref().map(numbers)).collect();
    // What began this week can't be compared with the week before.
    assert_eq!(before, [Some((5, Some(5), Some(13))), None, None, Some((0, Some(0), Some(0)))]);

    assert!(goals.remove(&name("new")).await.expect("it answers"));
    assert!(!goals.remove(&name("new")).await.expect("it answers"));
    assert_eq!(reached(&goals, &counters, now).await.len(), 3);
}

#[tokio::test]
async fn a_new_site_is_not_compared_and_a_site_without_people_has_no_conversion() {
    let (store, now) = (MemoryStore::new(), Timestamp::now());
    let day = now.minus(3 * 86_400);
    let goals = Goals::new(store.clone());
    let mut counters = Counters::builder(store).build().expect("the defaults are fine");
    goals.mark(&goal("signups", "Signed up")).await.expect("there is room");
    record(&counters, "signups", 0..3, day);
    counters.flush().await.expect("memory does not fail");
    let found = reached(&goals, &counters, now).await;
    assert_eq!(numbers(found[0].now.as_ref().expect("readable")), (3, Some(3), None));
    record(&counters, "hits", 0..2, day);
    counters.flush().await.expect("memory does not fail");
    let found = reached(&goals, &counters, now).await;
    // Not everybody who signed up has visited a page.
    assert_eq!(numbers(found[0].now.as_ref().expect("readable")), (3, Some(3), Some(100)));
    assert_eq!(found[0].before, None);
}

#[tokio::test]
async fn names_and_the_number_of_goals_are_limited() {
    for text in ["", " ", "a\nb", &"x".repeat(101)] {
        let error = Goal::new(name("signups"), text).expect_err(text);
        assert_eq!(error, GoalError::Name);
    }
    for counter in ["view:/a", "label:plan:free", "label:plan@:/a = free"] {
        assert_eq!(Goal::new(name(counter), "Signed up").expect_err(counter), GoalError::Counter);
    }
    let goals = Goals::new(MemoryStore::new());
    for number in 0..Goals::MAX {
        goals.mark(&goal(&format!("goal-{number}"), &"ä".repeat(100))).await.expect("there is room");
    }
    let error = goals.mark(&goal("more", "More")).await.expect_err("there are 50");
    assert_eq!(error.kind(), &ErrorKind::TooManyItems { max: 50 });
    goals.mark(&goal("goal-7", "Renamed")).await.expect("it is one of them");
    assert_eq!(goals.list().await.expect("readable").len(), Goals::MAX);
}
