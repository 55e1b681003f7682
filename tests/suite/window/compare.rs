//! Tests for comparing window counts with external counts.

use std::num::NonZeroU32;

use counter_core::Timestamp;
use counter_core::window::{Dimensions, Expected, Window, WindowCounters, WindowStore};

use crate::stores;

stores::on! {
    [memory redis sqlite postgres mariadb]
    { windows_that_differ_are_reported_with_both_values }
}

async fn windows_that_differ_are_reported_with_both_values(store: impl WindowStore) {
    let counters = WindowCounters::new(store, Window::DAY).keep(7);
    let yesterday = Timestamp::now().minus(86_400);
    let app = |n: u32| Dimensions::new().text("app", &format!("app {n}"));
    let expected = |n: u32, count: u64| Expected { dimensions: app(n), at: yesterday, count };
    for n in 1..=2000 {
        let n = NonZeroU32::new(n).expect("not 0");
        counters.increment_at(&app(n.get()), n, yesterday).await.expect("the store is available");
    }
    let right = (1..=2000).map(|n| expected(n, n.into()));
    assert_eq!(counters.compare(right.clone()).await.expect("readable"), []);
    let wrong = [expected(3000, 1), expected(7, 6)];
    let found = counters.compare(wrong.clone().into_iter().chain(right)).await.expect("readable");
    let told: Vec<_> = found.iter().map(|one| (one.expected.clone(), one.counted)).collect();
    assert_eq!(told, wrong.into_iter().zip([0, 7]).collect::<Vec<_>>());
}
