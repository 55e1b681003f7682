//! Reads of visitors.

use std::ops::Range;

use counter_core::sketch::Sketch;
use counter_core::stores::WriterId;
use counter_core::time::{Bucket, Kind};
use counter_core::{Store, Timestamp};

use super::{seen, send, uniques, unix_now};
use crate::stores;
use crate::support::{batch, name, precision, query, sketch_of, unix, visitors_of};

stores::on! {
    [memory redis redis_without_scripts sqlite sqlite_in_memory postgres mariadb]
    {
        visitors_are_a_union_over_counters_and_buckets
        visitors_count_in_every_visitor_precision
        visitor_counts_of_many_counters_come_in_request_order
        visitors_of_many_counters_come_in_request_order
        a_reply_has_a_bounded_number_of_sketches_but_at_least_one_bucket
    }
}

async fn visitors_are_a_union_over_counters_and_buckets(store: impl Store + Clone) {
    let now = unix_now();
    let hour = now - now % 3600;
    let all = vec![seen("a", hour, 0..30), seen("a", hour - 3600, 20..40), seen("b", hour, 30..50)];
    send(&store, &batch(WriterId::random(), 1, all)).await;
    assert_eq!(uniques(&store, &["a"], &[(3600, hour)]).await, 30);
    assert_eq!(uniques(&store, &["a"], &[(3600, hour), (3600, hour - 3600)]).await, 40);
    assert_eq!(uniques(&store, &["a", "b", "c"], &[(3600, hour), (3600, hour - 3600)]).await, 50);
    assert_eq!(uniques(&store, &["c"], &[(3600, hour)]).await, 0);
}

async fn visitors_count_in_every_visitor_precision(store: impl Store + Clone) {
    let now = unix_now();
    let (hour, day) = (now - now % 3600, now - now % 86_400);
    let writer = WriterId::random();
    // A few registers are sent individually, but larger numbers as a single value.
    send(&store, &batch(writer, 1, vec![seen("few", hour, 0..10), seen("many", hour, 0..5000)])).await;
    for width in [3600, 86_400] {
        let start = if width == 3600 { hour } else { day };
        assert_eq!(uniques(&store, &["few"], &[(width, start)]).await, 10);
        let many = uniques(&store, &["many"], &[(width, start)]).await;
        assert!((4900..5100).contains(&many), "{many}");
    }
    let mut coarse = seen("few", hour, 10..20);
    coarse.finest = precision(86_400);
    send(&store, &batch(writer, 2, vec![coarse])).await;
    assert_eq!(uniques(&store, &["few"], &[(3600, hour)]).await, 10);
    assert_eq!(uniques(&store, &["few"], &[(86_400, day)]).await, 20);
}

async fn visitor_counts_of_many_counters_come_in_request_order(store: impl Store + Clone) {
    let now = unix_now();
    let hour = now - now % 3600;
    let sketches = vec![
        seen("few", hour, 0..10),
        seen("few", hour - 3600, 5..20),
        seen("many", hour, 0..5000),
        seen("many", hour - 3600, 2000..6000),
    ];
    send(&store, &batch(WriterId::random(), 1, sketches)).await;
    let names = ["many", "nobody", "few", "many"].map(name);
    let hours = |first: u64, count: u64| unix(first)..unix(first + 3600 * (count - 1) + 1);
    let hour_before = hour - 3600;
    // A bucket, two buckets, a bucket that starts within the range, an empty bucket, and an empty range.
    let ranges = [
        hours(hour, 1),
        hours(hour_before, 2),
        unix(hour_before + 1)..unix(hour + 3600),
        hours(hour - 7200, 1),
        unix(hour)..unix(hour),
    ];
    let buckets = |range: &Range<Timestamp>| {
        let starts = precision(3600).starts(range.clone());
        starts.map(|start| Bucket { precision: precision(3600), start }).collect::<Vec<_>>()
    };
    let unions = ranges.each_ref().map(buckets);
    let counts = store.visitor_counts(&names, &unions).await.expect("readable");
    assert_eq!(counts.len(), names.len());
    for (name, counts) in names.iter().zip(&counts) {
        let mut expected = Vec::new();
        for buckets in &unions {
            let mut union = Sketch::new();
            for bucket in buckets {
                union.merge(&sketch_of(&store, name, *bucket).await);
            }
            expected.push(Ok(union.estimate()));
        }
        assert_eq!(counts, &expected, "{name}");
    }
    assert_eq!(counts[1], [const { Ok(0) }; 5]);
    assert_eq!(counts[2], [Ok(10), Ok(20), Ok(10), Ok(0), Ok(0)]);
    assert!(store.visitor_counts(&[], &unions).await.expect("readable").is_empty());
    let none = store.visitor_counts(&names, &[]).await.expect("readable");
    assert_eq!(none, [const { Vec::new() }; 4]);
}

async fn visitors_of_many_counters_come_in_request_order(store: impl Store + Clone) {
    // Visitors of buckets that are past retention are not stored.
    let hour = unix_now() / 3600 * 3600;
    let of = |n: u32, at: u64| seen(&format!("c{n}"), at, n..2 * n);
    // Two hours ago, there were visitors of more counters than a database reads at once.
    let sketches = (1..=10).map(|n| of(n, hour)).chain((1..=70).map(|n| of(n, hour - 7200)));
    send(&store, &batch(WriterId::random(), 1, sketches.collect())).await;
    let order: Vec<_> = (0..=100).rev().chain([7]).collect();
    let counters: Vec<_> = order.iter().map(|n| name(&format!("c{n}"))).collect();
    let hours = [hour - 7200, hour - 3600, hour];
    for read in [&hours[..], &hours[..2], &hours[2..]] {
        let values = visitors_of(&store, &counters, precision(3600), over(read)).await;
        assert_eq!(values.len(), counters.len());
        for (n, values) in order.iter().zip(values) {
            let has_visitors =
                |start: u64| *n > 0 && (start == hour && *n <= 10 || start == hour - 7200 && *n <= 70);
            let starts = read.iter().copied().filter(|start| has_visitors(*start));
            let expected: Vec<_> = starts.map(|start| (unix(start), of(*n, hour).value)).collect();
            assert_eq!(values, expected, "c{n}");
        }
    }
}

async fn a_reply_has_a_bounded_number_of_sketches_but_at_least_one_bucket(store: impl Store + Clone) {
    let hour = unix_now() / 3600 * 3600;
    let hours: Vec<_> = (0..4).rev().map(|ago| hour - 3600 * ago).collect();
    let names: Vec<_> = (0..300).map(|n| format!("c{n}")).collect();
    for &at in &hours {
        let sketches = names.iter().map(|counter| seen(counter, at, 0..3)).collect();
        send(&store, &batch(WriterId::random(), 1, sketches)).await;
    }
    let counters: Vec<_> = names.iter().map(|counter| name(counter)).collect();
    let twice = [&counters[..], &counters[..]].concat();
    for counters in [&counters, &twice] {
        let range = unix(hours[0])..unix(hour + 1);
        let reply =
            store.values(Kind::Visitors, query(counters, precision(3600), range)).await.expect("readable");
        assert_eq!(reply.end, unix(hours[1]));
        for (start, value) in reply.counters.iter().flat_map(|reading| &reading.values) {
            assert_eq!((*start, value.visitors().map(Sketch::estimate)), (unix(hours[0]), Some(3)));
        }
        for values in visitors_of(&store, counters, precision(3600), over(&hours)).await {
            assert_eq!(values.iter().map(|(start, _)| start.as_unix()).collect::<Vec<_>>(), hours);
        }
    }
    let empty = unix(hour)..unix(hour);
    let reply =
        store.values(Kind::Visitors, query(&counters, precision(3600), empty)).await.expect("readable");
    assert!(reply.end == unix(hour) && reply.counters.iter().all(|reading| reading.values.is_empty()));
}

/// Returns the range of consecutive hours.
fn over(hours: &[u64]) -> Range<Timestamp> {
    unix(hours[0])..unix(hours[hours.len() - 1] + 1)
}
