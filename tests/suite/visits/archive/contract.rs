//! Contract tests for stores that accept absolute values.

use std::time::Duration;

use counter_core::sketch::Sketch;
use counter_core::stores::WriterId;
use counter_core::time::{Grid, Kind};
use counter_core::visitor::VisitorKey;
use counter_core::visits::Bin;
use counter_core::visits::store::{ArchiveStore, Page, Progress, Value};
use counter_core::{Store, Timestamp};
use tests::until;

use super::{clean, lifetime, retained, samples, sketch};
use crate::stores;
use crate::support::{bins_of, listed, name, precision, query, unix};

stores::on! {
    [memory sqlite sqlite_in_memory postgres mariadb]
    {
        putting_a_page_keeps_the_greater_count_and_is_idempotent
        putting_a_page_merges_visitors_and_is_idempotent
        putting_a_page_keeps_the_greater_bin_count_and_is_idempotent
        a_counter_forgotten_after_it_was_read_stays_forgotten
        progress_is_stored_per_precision_and_kind_of_values
        a_lease_has_one_holder_until_it_ends
        a_lease_is_released_only_by_its_holder
        values_past_retention_are_cleaned
    }
}

/// Returns the start of an hour within retention.
fn hour() -> u64 {
    Timestamp::now().as_unix() / 3600 * 3600 - 7200
}

fn page(kind: Kind, counters: &[&str]) -> Page {
    let mut page = Page::new(kind, Timestamp::now(), retained([(3600, 1000)]).iter().next().expect("hours"));
    page.counters = counters.iter().map(|counter| name(counter)).collect();
    page
}

fn of(visitors: std::ops::Range<u32>) -> Sketch {
    let mut sketch = Sketch::new();
    for n in visitors {
        sketch.insert(VisitorKey::new([3; 16]).visitor(&[&n.to_le_bytes()]));
    }
    sketch
}

async fn putting_a_page_keeps_the_greater_bin_count_and_is_idempotent(store: impl Store + ArchiveStore) {
    let bins =
        |bins: &[(u16, u64)]| bins.iter().map(|(status, count)| (Bin::status(*status), *count)).collect();
    let put = async |a: &[(u16, u64)], b: &[(u16, u64)], replaces| {
        let mut page = page(Kind::Distributions, &["/a", "/b"]);
        page.replaces = replaces;
        let value = |some| Value::Distribution(bins(some));
        page.values.insert(unix(hour()), vec![(0, value(a)), (1, value(b))]);
        store.put(&page).await.expect("the store is available");
    };
    let are = async |a: &[(u16, u64)], b: &[(u16, u64)]| {
        let range = unix(hour())..unix(hour() + 1);
        let read = store
            .values(Kind::Distributions, query(&[name("/a"), name("/b")], precision(3600), range))
            .await
            .expect("readable")
            .counters;
        let read: Vec<Vec<_>> = read.iter().map(|one| bins_of(one).remove(0).1).collect();
        assert_eq!(read, [bins(a), bins(b)]);
    };
    put(&[(200, 5)], &[(404, 1)], false).await;
    put(&[(200, 5)], &[(404, 1)], false).await;
    put(&[(200, 3), (500, 2)], &[(404, 7)], false).await;
    are(&[(200, 5), (500, 2)], &[(404, 7)]).await;
    put(&[(200, 1)], &[(404, 7)], true).await;
    are(&[(200, 1)], &[(404, 7)]).await;
}

async fn putting_a_page_keeps_the_greater_count_and_is_idempotent(store: impl Store + ArchiveStore) {
    let put = async |counts: [[u64; 2]; 2], lifetimes: [u64; 2]| {
        let mut page = page(Kind::Counts, &["/a", "/b"]);
        page.lifetimes = lifetimes.to_vec();
        for (start, counts) in [hour(), hour() + 3600].into_iter().zip(counts) {
            let some = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
            page.values
                .insert(unix(start), some.map(|(index, count)| (index, Value::Count(count))).collect());
        }
        store.put(&page).await.expect("the store is available");
    };
    put([[5, 0], [1, 7]], [12, 0]).await;
    put([[5, 0], [1, 7]], [12, 0]).await;
    put([[4, 2], [3, 6]], [11, 30]).await;
    assert_eq!(samples(&store, "/a", 3600).await, [(hour(), 5), (hour() + 3600, 3)]);
    assert_eq!(samples(&store, "/b", 3600).await, [(hour(), 2), (hour() + 3600, 7)]);
    assert_eq!([lifetime(&store, "/a").await, lifetime(&store, "/b").await], [12, 30]);
    let known =
        store.known(listed(&[precision(3600), precision(86_400)], "", 10)).await.expect("readable").counters;
    assert_eq!(known.len(), 2, "{known:?}");
}

async fn putting_a_page_merges_visitors_and_is_idempotent(store: impl Store + ArchiveStore) {
    for visitors in [0..50, 0..50, 40..200, 0..50] {
        let mut page = page(Kind::Visitors, &["/a", "/b"]);
        let values = vec![(0, Value::Visitors(of(visitors))), (1, Value::Visitors(of(7..9)))];
        page.values.insert(unix(hour()), values);
        store.put(&page).await.expect("the store is available");
    }
    assert_eq!(sketch(&store, "/a", 3600, hour()).await, of(0..200));
    assert_eq!(sketch(&store, "/b", 3600, hour()).await, of(7..9));
    assert_eq!(sketch(&store, "/b", 3600, hour() + 3600).await, Sketch::new());
}

async fn a_counter_forgotten_after_it_was_read_stays_forgotten(store: impl Store + ArchiveStore) {
    let put = async |read| {
        for (value, lifetimes) in [(Value::Count(1), vec![1, 1]), (Value::Visitors(of(0..3)), Vec::new())] {
            let mut page = Page { read, lifetimes, ..page(value.kind(), &["/a", "/b"]) };
            page.values.insert(unix(hour()), vec![(0, value.clone()), (1, value)]);
            store.put(&page).await.expect("the store is available");
        }
    };
    let read = Timestamp::now();
    // This also applies to a counter that is copied for the first time.
    store.forget(&name("/a"), &Grid::default(), read).await.expect("the store is available");
    put(read).await;
    assert_eq!((samples(&store, "/a", 3600).await, lifetime(&store, "/a").await), (vec![], 0));
    put(read.plus(60)).await;
    store.forget(&name("/a"), &Grid::default(), Timestamp::now()).await.expect("the store is available");
    put(read).await;
    assert_eq!((samples(&store, "/a", 3600).await, lifetime(&store, "/a").await), (vec![], 0));
    assert_eq!(sketch(&store, "/a", 3600, hour()).await, Sketch::new());
    assert_eq!((samples(&store, "/b", 3600).await, lifetime(&store, "/b").await), (vec![(hour(), 1)], 1));
    // Values read later belong to the new counter.
    put(read.plus(60)).await;
    assert_eq!(samples(&store, "/a", 3600).await, [(hour(), 1)]);
}

async fn progress_is_stored_per_precision_and_kind_of_values(store: impl Store + ArchiveStore) {
    let (hours, days) = (precision(3600), precision(86_400).utc_offset(3600));
    let progress = |copied, settled| Progress::new(unix(copied), unix(settled));
    assert_eq!(store.progress(Kind::Counts, hours).await.expect("readable"), None);
    for (copied, settled) in [(7200, 3600), (3600, 3600), (3600, 7200)] {
        store.advance(Kind::Counts, hours, progress(copied, settled)).await.expect("the store is available");
    }
    assert_eq!(store.progress(Kind::Counts, hours).await.expect("readable"), Some(progress(3600, 7200)));
    store.advance(Kind::Visitors, days, progress(1, 0)).await.expect("the store is available");
    assert_eq!(store.progress(Kind::Visitors, days).await.expect("readable"), Some(progress(1, 0)));
    assert_eq!(store.progress(Kind::Visitors, hours).await.expect("readable"), None);
    assert_eq!(store.progress(Kind::Counts, days).await.expect("readable"), None);
}

async fn a_lease_has_one_holder_until_it_ends(store: impl Store + ArchiveStore) {
    let (one, other) = (WriterId::random(), WriterId::random());
    let ask = async |holder, seconds| {
        store.lease(holder, Duration::from_secs(seconds)).await.expect("the store is available")
    };
    let time = store.time().await.expect("the store is available");
    assert!(time.as_unix().abs_diff(Timestamp::now().as_unix()) < 600);
    assert!(ask(one, 3600).await);
    assert!(!ask(other, 3600).await);
    assert!(ask(one, 0).await, "the holder renews or releases the lease");
    until("the lease has ended", tests::LIMIT, async || ask(other, 3600).await).await;
    assert!(!ask(one, 3600).await);
    assert!(ask(one, 60).await, "no lease ends so late unless a clock was ahead");
}

async fn a_lease_is_released_only_by_its_holder(store: impl Store + ArchiveStore) {
    let (one, other) = (WriterId::random(), WriterId::random());
    let ask =
        async |holder| store.lease(holder, Duration::from_secs(3600)).await.expect("the store is available");
    let release = async |holder| store.release(holder).await.expect("the store is available");
    release(one).await;
    assert!(ask(one).await);
    release(other).await;
    assert!(!ask(other).await, "the lease is still held");
    release(one).await;
    assert!(ask(other).await);
    release(one).await;
    assert!(!ask(one).await);
}

async fn values_past_retention_are_cleaned(store: impl Store + ArchiveStore) {
    let mut page = page(Kind::Counts, &["/a"]);
    for ago in [0, 1000, 1010, 5000] {
        page.values.insert(unix(hour() - ago * 3600), vec![(0, Value::Count(1 + ago))]);
    }
    store.put(&page).await.expect("the store is available");
    clean(&store, Timestamp::now(), &retained([(3600, 1005)])).await;
    assert_eq!(samples(&store, "/a", 3600).await, [(hour() - 3_600_000, 1001), (hour(), 1)]);
}
