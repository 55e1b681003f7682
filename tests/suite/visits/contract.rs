//! Contract tests for any store.

mod fences;
mod visitors;

use std::collections::BTreeSet;
use std::sync::Arc;

use counter_core::sketch::Sketch;
use counter_core::stores::{Shard, WriterId};
use counter_core::time::{Bucket, Grid};
use counter_core::visitor::VisitorKey;
use counter_core::visits::DropReason;
use counter_core::visits::store::{
    Adds, ApplyOutcome, Batch, Cell, Fence, FenceKind, Incarnation, Part, Remark, StoredFence, Value, Witness,
};
use counter_core::{Precisions, Sample, Store, Timestamp};
use tests::until;

use crate::stores;
use crate::support::{
    always, batch, listed, name, precision, query, samples_of, sketch_of, unix, without_messages,
};

stores::on! {
    [memory redis redis_without_scripts sqlite sqlite_in_memory postgres mariadb]
    {
        a_batch_counts_in_every_precision_from_the_finest
        a_batch_sent_twice_counts_once
        a_batch_after_a_missing_batch_is_a_gap_and_changes_nothing
        an_accepted_gap_closes
        a_sequence_used_by_another_incarnation_is_a_conflict
        a_fence_is_not_created_over_another
        a_fence_is_created_only_with_the_expected_witness
        writers_do_not_fence_each_other
        a_new_counter_is_reported_if_no_data_existed
        a_read_returns_the_buckets_in_range_in_ascending_order
        totals_are_the_sums_of_the_samples_in_a_range
        known_counters_are_paged_by_name
        a_counter_is_contained_if_it_has_samples_in_any_given_precision
        cleaning_removes_only_samples_past_retention
        cleaning_forgets_a_counter_with_its_last_sample
        a_counter_that_returns_is_known_and_cleaned_again
        day_counts_are_retained_after_second_counts_expire
        the_salt_of_an_epoch_is_the_first_candidate
        an_expired_salt_is_forgotten
        a_lifetime_is_the_sum_of_all_hits_and_survives_cleaning
        the_lifetime_of_a_label_value_ends_with_its_last_sample
        a_forgotten_counter_is_removed_everywhere_and_starts_from_zero
        counters_are_read_in_request_order_for_any_range
        names_that_differ_in_one_byte_are_different_counters
        an_out_of_range_count_is_rejected_and_the_rest_is_applied
        samples_are_added_to_one_precision_but_not_to_lifetimes
        added_samples_are_known_and_cleaned
        visitors_are_added_to_one_precision
        added_lifetimes_do_not_change_buckets
        additions_and_hits_add_up
        counters_with_a_lifetime_are_listed_even_without_samples
        an_added_lifetime_saturates_at_the_maximum
        hits_far_ahead_of_the_clock_are_rejected
        hits_past_every_retention_add_only_to_the_lifetime
    }
}

const T: u64 = 1_585_908_965;

fn cell(counter: &str, start: u64, finest: u32, count: u64) -> Cell {
    Cell { counter: name(counter), start: unix(start), finest: precision(finest), value: Value::Count(count) }
}

fn seen(counter: &str, start: u64, visitors: std::ops::Range<u32>) -> Cell {
    let key = VisitorKey::new([3; 16]);
    let mut raised = Sketch::new();
    for visitor in visitors {
        raised.insert(key.visitor(&[&visitor.to_le_bytes()]));
    }
    let value = Value::Visitors(raised);
    Cell { counter: name(counter), start: unix(start), finest: precision(3600), value }
}

async fn send(store: &impl Store, batch: &Batch) {
    let verdict = store.apply(batch).await.expect("the store is available");
    let ApplyOutcome::Applied(remarks) = verdict else { panic!("{verdict:?}") };
    assert!(remarks.iter().all(|remark| matches!(remark, Remark::NewLifetime { .. })), "{remarks:?}");
}

async fn samples(store: &impl Store, counter: &str, width: u32) -> Vec<(u64, u64)> {
    let samples = samples_of(store, &[name(counter)], precision(width), always()).await;
    samples.concat().into_iter().map(|Sample { start, count }| (start.as_unix(), count)).collect()
}

async fn uniques(store: &impl Store, counters: &[&str], buckets: &[(u32, u64)]) -> u64 {
    let counters: Vec<_> = counters.iter().map(|counter| name(counter)).collect();
    let buckets: Vec<_> = buckets
        .iter()
        .map(|(width, start)| Bucket { precision: precision(*width), start: unix(*start) })
        .collect();
    let mut union = Sketch::new();
    for (counter, bucket) in counters.iter().flat_map(|counter| buckets.iter().map(move |one| (counter, one)))
    {
        union.merge(&sketch_of(store, counter, *bucket).await);
    }
    union.estimate()
}

async fn known(store: &impl Store) -> BTreeSet<String> {
    let all: Vec<_> = Grid::default().counts.iter().map(|retention| retention.precision).collect();
    let known = store.known(listed(&all, "", 1000)).await.expect("readable").counters;
    known.into_iter().map(|(name, precision)| format!("{precision}:{name}")).collect()
}

async fn clean(store: &impl Store, now: u64) -> (u64, u64) {
    let (mut samples, mut counters) = (0, 0);
    loop {
        let some = store
            .clean(Shard::default(), unix(now), &Grid::default().counts)
            .await
            .expect("the store is available");
        samples += some.samples;
        counters += some.counters;
        if !some.more {
            return (samples, counters);
        }
    }
}

async fn a_batch_counts_in_every_precision_from_the_finest(store: impl Store + Clone) {
    let writer = WriterId::random();
    send(&store, &batch(writer, 1, vec![cell("a", T, 1, 12), cell("a", T + 1, 60, 5)])).await;
    assert_eq!(samples(&store, "a", 1).await, [(T, 12)]);
    assert_eq!(samples(&store, "a", 5).await, [(T, 12)]);
    assert_eq!(samples(&store, "a", 60).await, [(1_585_908_960, 17)]);
    assert_eq!(samples(&store, "a", 300).await, [(1_585_908_900, 17)]);
    assert_eq!(samples(&store, "a", 3600).await, [(1_585_908_000, 17)]);
    assert_eq!(samples(&store, "a", 18_000).await, [(1_585_908_000, 17)]);
    assert_eq!(samples(&store, "a", 86_400).await, [(1_585_872_000, 17)]);
    assert_eq!(samples(&store, "b", 60).await, []);
}

async fn a_batch_sent_twice_counts_once(store: impl Store + Clone) {
    let writer = WriterId::random();
    let first = batch(writer, 1, vec![cell("a", T, 1, 1)]);
    let second = batch(writer, 2, vec![cell("a", T, 1, 10)]);
    for again in [&first, &first, &second, &second, &first, &second] {
        send(&store, again).await;
    }
    assert_eq!(samples(&store, "a", 1).await, [(T, 11)]);
}

async fn a_batch_after_a_missing_batch_is_a_gap_and_changes_nothing(store: impl Store + Clone) {
    let writer = WriterId::random();
    send(&store, &batch(writer, 1, vec![cell("a", T, 1, 1)])).await;
    let third = batch(writer, 3, vec![cell("a", T, 1, 100)]);
    let found = StoredFence { sequence: 1, ..StoredFence::default() };
    assert_eq!(
        store.apply(&third).await.expect("the store is available"),
        ApplyOutcome::SequenceGap { found }
    );
    assert_eq!(samples(&store, "a", 1).await, [(T, 1)]);
    send(&store, &batch(writer, 2, vec![cell("a", T, 1, 10)])).await;
    send(&store, &third).await;
    assert_eq!(samples(&store, "a", 1).await, [(T, 111)]);
}

async fn an_accepted_gap_closes(store: impl Store + Clone) {
    let writer = WriterId::random();
    send(&store, &batch(writer, 1, vec![cell("a", T, 1, 1)])).await;
    let mut fifth = batch(writer, 5, vec![cell("a", T, 1, 100)]);
    fifth.fence.after = 1;
    send(&store, &fifth).await;
    send(&store, &fifth).await;
    assert_eq!(samples(&store, "a", 1).await, [(T, 101)]);
}

fn cut_by(incarnation: u64, batch: Batch) -> Batch {
    let kind = FenceKind::Process { incarnation: Incarnation::from_bits(incarnation) };
    Batch { fence: Fence { kind, ..batch.fence }, ..batch }
}

async fn a_sequence_used_by_another_incarnation_is_a_conflict(store: impl Store + Clone) {
    let writer = WriterId::random();
    let one = |sequence, count| cut_by(1, batch(writer, sequence, vec![cell("a", T, 1, count)]));
    let other = |sequence, count| cut_by(2, batch(writer, sequence, vec![cell("a", T, 1, count)]));
    let apply = async |batch: Batch| store.apply(&batch).await.expect("the store is available");
    send(&store, &one(1, 1)).await;
    send(&store, &other(2, 10)).await;
    let incarnation = Incarnation::from_bits(2);
    let found = StoredFence { sequence: 2, incarnation, since: 1 };
    assert_eq!(apply(one(2, 100)).await, ApplyOutcome::Conflict { found });
    send(&store, &other(3, 1000)).await;
    let found = StoredFence { sequence: 3, ..found };
    assert_eq!(apply(one(3, 10_000)).await, ApplyOutcome::Conflict { found });
    assert_eq!(apply(other(5, 1)).await, ApplyOutcome::SequenceGap { found });
    // If both incarnations sent the same batch, it is applied.
    assert_eq!(apply(one(1, 1)).await, ApplyOutcome::Applied(Vec::new()));
    assert_eq!(samples(&store, "a", 1).await, [(T, 1011)]);
}

async fn a_fence_is_not_created_over_another(store: impl Store + Clone) {
    let writer = WriterId::random();
    send(&store, &batch(writer, 1, vec![])).await;
    send(&store, &batch(writer, 2, vec![cell("a", T, 1, 1)])).await;
    let opening = |sequence| {
        let empty = batch(writer, sequence, Vec::new());
        Batch { fence: Fence { after: 0, ..empty.fence }, ..empty }
    };
    send(&store, &opening(1)).await;
    let found = StoredFence { sequence: 2, ..StoredFence::default() };
    let answer = store.apply(&opening(5)).await.expect("the store is available");
    assert_eq!(answer, ApplyOutcome::SequenceGap { found });
    send(&store, &batch(writer, 3, vec![cell("a", T, 1, 10)])).await;
    assert_eq!(samples(&store, "a", 1).await, [(T, 11)]);
}

async fn a_fence_is_created_only_with_the_expected_witness(store: impl Store + Clone) {
    send(&store, &batch(WriterId::random(), 1, Vec::new())).await;
    let writer = WriterId::random();
    let Some(shown) = store.witness(Shard::default(), writer).await.expect("the store is available") else {
        return; // This store can't lose a fence without the data.
    };
    let opening = |witness| {
        let empty = batch(writer, 5, Vec::new());
        Batch { fence: Fence { after: 0, ..empty.fence }, witness: Some(witness), ..empty }
    };
    for other in [
        Witness::default(),
        Witness { data: Some("other".to_owned()), ..shown.clone() },
        Witness { listed: true, ..shown.clone() },
    ] {
        let answer = store.apply(&opening(other)).await.expect("the store is available");
        assert_eq!(answer, ApplyOutcome::SequenceGap { found: StoredFence::default() });
    }
    send(&store, &opening(shown)).await;
    send(&store, &batch(writer, 6, vec![cell("a", T, 1, 1)])).await;
    assert_eq!(samples(&store, "a", 1).await, [(T, 1)]);
}

async fn writers_do_not_fence_each_other(store: impl Store + Clone) {
    for _ in 0..3 {
        send(&store, &batch(WriterId::random(), 1, vec![cell("a", T, 1, 1)])).await;
    }
    assert_eq!(samples(&store, "a", 1).await, [(T, 3)]);
}

async fn a_new_counter_is_reported_if_no_data_existed(store: impl Store + Clone) {
    let writer = WriterId::random();
    let mut sequence = 0;
    let mut began = async |counters: &[&str]| {
        sequence += 1;
        let cells = counters.iter().map(|counter| cell(counter, T, 1, 1)).collect();
        let verdict = store.apply(&batch(writer, sequence, cells)).await.expect("the store is available");
        let ApplyOutcome::Applied(mut remarks) = verdict else { panic!("{verdict:?}") };
        remarks.sort_by_key(|remark| format!("{remark:?}"));
        remarks
    };
    assert_eq!(began(&["a"]).await, [Remark::NewLifetime { cell: 0 }]);
    assert_eq!(
        began(&["a", "b", "c"]).await,
        [Remark::NewLifetime { cell: 1 }, Remark::NewLifetime { cell: 2 }]
    );
    assert_eq!(began(&["a", "b", "c"]).await, []);
    store.forget(&name("b"), &Grid::default(), unix(T)).await.expect("the store is available");
    assert_eq!(began(&["a", "b", "c"]).await, [Remark::NewLifetime { cell: 1 }]);
}

async fn a_read_returns_the_buckets_in_range_in_ascending_order(store: impl Store + Clone) {
    let cells = (0..100).rev().map(|second| cell("a", T + second, 1, second + 1)).collect();
    send(&store, &batch(WriterId::random(), 1, cells)).await;
    let range = unix(T + 10)..unix(T + 13);
    let samples = samples_of(&store, &[name("a")], precision(1), range).await;
    let expected = [10, 11, 12].map(|second| Sample { start: unix(T + second), count: second + 1 });
    assert_eq!(samples.concat(), expected);
}

async fn a_counter_is_contained_if_it_has_samples_in_any_given_precision(store: impl Store + Clone) {
    let cells = ["b", "a:b", "é"].map(|counter| cell(counter, T, 60, 1));
    send(&store, &batch(WriterId::random(), 1, cells.into())).await;
    send(&store, &batch(WriterId::random(), 1, vec![cell("seconds", T, 1, 1)])).await;
    let contained = async |counters: &[&str], widths: &[u32]| {
        let counters: Vec<_> = counters.iter().map(|counter| name(counter)).collect();
        let precisions: Vec<_> = widths.iter().map(|width| precision(*width)).collect();
        let contained = store.contains(&counters, &precisions).await.expect("readable");
        contained.into_iter().collect::<Result<Vec<_>, _>>().expect("readable")
    };
    let counters = ["é", "a", "a:b", "b", "seconds", "c"];
    assert_eq!(contained(&counters, &[60, 300]).await, [true, false, true, true, true, false]);
    assert_eq!(contained(&counters, &[1]).await, [false, false, false, false, true, false]);
    assert_eq!(contained(&counters, &[]).await, [false; 6]);
    assert_eq!(contained(&[], &[60]).await, [false; 0]);
}

async fn known_counters_are_paged_by_name(store: impl Store + Clone) {
    let names = ["b", "a", "/articles/{id}", "a:b", "é", "zz"];
    let cells = names.iter().map(|counter| cell(counter, T, 60, 1)).collect();
    send(&store, &batch(WriterId::random(), 1, cells)).await;
    send(&store, &batch(WriterId::random(), 1, vec![cell("seconds only", T, 1, 1)])).await;
    let page = async |from: &str, limit| {
        let known = store
            .known(listed(&[precision(60), precision(1)], from, limit))
            .await
            .expect("readable")
            .counters;
        known.into_iter().map(|(name, precision)| format!("{precision}:{name}")).collect::<Vec<_>>()
    };
    assert_eq!(page("", 2).await, ["60:/articles/{id}", "60:a", "1:seconds only"]);
    assert_eq!(page("a", 2).await, ["60:a", "60:a:b", "1:seconds only"]);
    assert_eq!(
        page("a\0", 9).await,
        ["60:a:b", "60:b", "60:seconds only", "60:zz", "60:é", "1:seconds only"]
    );
    assert_eq!(page("ê", 9).await, Vec::<String>::new());
}

async fn cleaning_removes_only_samples_past_retention(store: impl Store + Clone) {
    // Aligned to a day, so that only the precisions of seconds, 5 seconds and minutes have expired samples.
    let day = 1_585_872_000;
    let cells = (0..10_000).map(|second| cell("a", day + second, 1, 1)).collect::<Vec<_>>();
    let writer = WriterId::random();
    for (sequence, cells) in (1..).zip(cells.chunks(140)) {
        send(&store, &batch(writer, sequence, cells.to_vec())).await;
    }
    let now = day + 9_999;
    let (samples_gone, counters_gone) = clean(&store, now).await;
    let (ones, fives, minutes) = (10_000 - 120, 2000 - 120, 167 - 120);
    assert_eq!((samples_gone, counters_gone), (ones + fives + minutes, 0));
    for (width, retained) in [(1, 120), (5, 600), (60, 7180), (300, 10_000), (86_400, 10_000)] {
        let samples = samples(&store, "a", width).await;
        assert_eq!(samples.iter().map(|(_, count)| count).sum::<u64>(), retained, "{width}");
        assert!(samples.iter().all(|(start, _)| start + u64::from(width) * 120 > now));
    }
    assert_eq!(clean(&store, now).await, (0, 0));
    assert_eq!(clean(&store, now + 1).await, (2, 0));
}

async fn cleaning_forgets_a_counter_with_its_last_sample(store: impl Store + Clone) {
    send(&store, &batch(WriterId::random(), 1, vec![cell("a", T, 1, 1), cell("b", T + 1, 1, 1)])).await;
    assert_eq!(clean(&store, T + 119).await, (0, 0));
    assert_eq!(clean(&store, T + 120).await, (1, 1));
    assert!(!known(&store).await.contains("1:a"));
    assert!(known(&store).await.contains("1:b"));
    assert_eq!(clean(&store, T + 121 * 86_400).await, (13, 13));
    assert_eq!(known(&store).await, BTreeSet::new());
}

async fn a_counter_that_returns_is_known_and_cleaned_again(store: impl Store + Clone) {
    let writer = WriterId::random();
    send(&store, &batch(writer, 1, vec![cell("a", T, 1, 1)])).await;
    clean(&store, T + 1000).await;
    assert!(!known(&store).await.contains("1:a"));
    send(&store, &batch(writer, 2, vec![cell("a", T + 2000, 1, 1)])).await;
    assert!(known(&store).await.contains("1:a"));
    clean(&store, T + 3000).await;
    assert_eq!(samples(&store, "a", 1).await, []);
    assert!(!known(&store).await.contains("1:a"));
}

async fn day_counts_are_retained_after_second_counts_expire(store: impl Store + Clone) {
    send(&store, &batch(WriterId::random(), 1, vec![cell("a", T, 1, 7)])).await;
    clean(&store, T + 30 * 86_400).await;
    assert_eq!(known(&store).await, BTreeSet::from(["86400:a".to_owned()]));
    assert_eq!(samples(&store, "a", 86_400).await, [(1_585_872_000, 7)]);
}

async fn the_salt_of_an_epoch_is_the_first_candidate(store: impl Store + Clone) {
    let now = Timestamp::now();
    let (day, hour) = (precision(86_400).bucket(now), precision(3600).bucket(now));
    let expiry = now.plus(1000);
    // These bytes are not valid UTF-8.
    let first = std::array::from_fn(|n| if n < 8 { 0xFF } else { 0 });
    for (epoch, candidate, retained) in [
        (day, first, first),
        (day, [2; 16], first),
        (hour, [3; 16], [3; 16]),
        (day, [4; 16], first),
        (hour, first, [3; 16]),
    ] {
        assert_eq!(store.salt(epoch, candidate, expiry).await.expect("the store is available"), retained);
    }
}

async fn an_expired_salt_is_forgotten(store: impl Store + Clone) {
    let now = Timestamp::now();
    let epoch = precision(1).bucket(now);
    let salt = async |candidate| {
        store.salt(epoch, [candidate; 16], now.plus(2)).await.expect("the store is available")
    };
    salt(1).await;
    until("the salt expired", tests::LIMIT, async || salt(2).await == [2; 16]).await;
}

fn unix_now() -> u64 {
    Timestamp::now().as_unix()
}

async fn lifetimes(store: &impl Store, counters: &[&str]) -> Vec<u64> {
    let counters: Vec<_> = counters.iter().map(|counter| name(counter)).collect();
    let totals = store.lifetimes(&counters).await.expect("readable");
    totals.into_iter().map(|total| total.expect("a total")).collect()
}

async fn a_lifetime_is_the_sum_of_all_hits_and_survives_cleaning(store: impl Store + Clone) {
    let writer = WriterId::random();
    let batch = batch(writer, 1, vec![cell("a", T, 1, 5), cell("a", T + 86_400, 1, 7), cell("b", T, 1, 11)]);
    send(&store, &batch).await;
    send(&store, &batch).await;
    assert_eq!(lifetimes(&store, &["b", "nobody", "a"]).await, [11, 0, 12]);
    clean(&store, T + 1000 * 86_400).await;
    assert!(known(&store).await.is_empty());
    assert_eq!(lifetimes(&store, &["a", "b"]).await, [12, 11]);
}

async fn the_lifetime_of_a_label_value_ends_with_its_last_sample(store: impl Store + Clone) {
    let [gone, old, value] = ["label:a:gone", "label:a:old", "label:a:value"];
    // The hits of `old` are already expired because its finest precision is coarser than all retained
    // precisions.
    let cells = vec![
        cell(gone, T, 1, 5),
        cell(old, 0, 100_000, 9),
        cell(value, T, 1, 5),
        cell(value, T + 86_400, 1, 7),
    ];
    send(&store, &batch(WriterId::random(), 1, cells)).await;
    let sweep = async || {
        assert_eq!(
            store.adopt(Shard::default(), None, &Grid::default().counts).await.expect("readable"),
            None
        );
    };
    sweep().await;
    // The days of `value` remain.
    clean(&store, T + 3600 * 121).await;
    sweep().await;
    assert_eq!(lifetimes(&store, &[gone, old, value]).await, [5, 0, 12]);
    let days = unix(T).as_unix() / 86_400 * 86_400;
    clean(&store, days + 86_400 * 120).await;
    sweep().await;
    assert_eq!(lifetimes(&store, &[gone, old, value]).await, [0, 0, 12]);
    // A value that returns starts from zero.
    let back = WriterId::random();
    send(&store, &batch(back, 1, vec![cell(gone, T, 1, 3)])).await;
    assert_eq!(lifetimes(&store, &[gone]).await, [3]);
}

async fn a_forgotten_counter_is_removed_everywhere_and_starts_from_zero(store: impl Store + Clone) {
    // Visitors of buckets that are past retention are not stored.
    let now = Timestamp::now();
    let t = now.as_unix();
    let writer = WriterId::random();
    send(&store, &batch(writer, 1, vec![cell("a", t, 1, 5), cell("b", t, 1, 7)])).await;
    send(&store, &batch(writer, 2, vec![seen("a", t, 0..10), seen("b", t, 0..20)])).await;
    store.forget(&name("a"), &Grid::default(), now).await.expect("the store is available");
    assert!(known(&store).await.iter().all(|member| member.ends_with(":b")));
    assert_eq!(lifetimes(&store, &["a", "b"]).await, [0, 7]);
    for width in [1, 3600, 86_400] {
        assert_eq!(samples(&store, "a", width).await, []);
        assert_eq!(samples(&store, "b", width).await.len(), 1);
    }
    let day = t / 86_400 * 86_400;
    assert_eq!(uniques(&store, &["a"], &[(86_400, day)]).await, 0);
    assert_eq!(uniques(&store, &["b"], &[(86_400, day)]).await, 20);
    send(&store, &batch(writer, 3, vec![cell("a", t, 1, 3)])).await;
    assert_eq!(lifetimes(&store, &["a"]).await, [3]);
    assert!(known(&store).await.contains("86400:a"));
    assert_eq!(samples(&store, "a", 86_400).await, [(day, 3)]);
}

async fn counters_are_read_in_request_order_for_any_range(store: impl Store + Clone) {
    let cells = (0..60).flat_map(|n| [cell("b", T + n, 1, 1), cell("a", T + n, 1, 2)]);
    let mut cells: Vec<_> = cells.collect();
    cells.sort_by(|one, other| one.counter.cmp(&other.counter));
    send(&store, &batch(WriterId::random(), 1, cells)).await;
    let counters = ["b", "nobody", "a"].map(name);
    for width in [1, 10, 60, 100_000] {
        let range = unix(T)..unix(T + width);
        let series = samples_of(&store, &counters, precision(1), range).await;
        let sums: Vec<u64> =
            series.iter().map(|samples| samples.iter().map(|sample| sample.count).sum()).collect();
        let seconds = width.min(60);
        assert_eq!(sums, [seconds, 0, 2 * seconds], "{width} s");
        assert!(series.iter().all(|samples| samples.is_sorted()));
    }
}

async fn names_that_differ_in_one_byte_are_different_counters(store: impl Store + Clone) {
    let names =
        ["a", "A", "a ", " a", "\u{e1}", "a\u{301}", "\u{ff41}", "%", "_", "'", "\"", "\\", "?", "\u{1f600}"];
    let cells = (1..).zip(names).map(|(count, counter)| cell(counter, T, 60, count)).collect();
    send(&store, &batch(WriterId::random(), 1, cells)).await;
    let counts: Vec<_> = (1..=names.len() as u64).collect();
    assert_eq!(lifetimes(&store, &names).await, counts);
    for (count, counter) in (1..).zip(names) {
        assert_eq!(samples(&store, counter, 60).await, [(1_585_908_960, count)], "{counter}");
    }
    let known = store.known(listed(&[precision(60)], "", 100)).await.expect("readable").counters;
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(known.iter().map(|(counter, _)| &**counter).collect::<Vec<_>>(), sorted);
}

async fn totals_are_the_sums_of_the_samples_in_a_range(store: impl Store + Clone) {
    let most = u64::try_from(i64::MAX).expect("positive");
    let mut cells = vec![cell("a", T, 1, 5), cell("a", T + 1, 1, 7), cell("a", T + 650, 1, 100)];
    cells.extend([T, T + 1, T + 2].map(|start| cell("most", start, 1, most)));
    // With this number of counters, SQL stores scan a minute, and look up the seconds of ten minutes.
    let others: Vec<_> = (0..200).map(|n| format!("other {n}")).collect();
    cells.extend(others.iter().map(|counter| cell(counter, T + 59, 1, 1)));
    send(&store, &addition(Adds::Samples, 1, cells)).await;
    let names: Vec<_> =
        ["a", "missing", "most"].into_iter().chain(others.iter().map(|name| &**name)).map(name).collect();
    for (seconds, a, other) in [(1, 5, 0), (2, 12, 0), (60, 12, 1), (650, 12, 1), (651, 112, 1)] {
        let range = unix(T)..unix(T + seconds);
        let totals = store.totals(query(&names, precision(1), range)).await.expect("readable");
        let totals: Vec<_> =
            totals.into_iter().map(|total| total.expect("a counter").known().expect("known")).collect();
        let many = if seconds > 2 { u64::MAX } else { seconds * most };
        assert_eq!(totals[..3], [a, 0, many], "{seconds} s");
        assert_eq!(totals[3..], [other; 200], "{seconds} s");
    }
}

async fn an_out_of_range_count_is_rejected_and_the_rest_is_applied(store: impl Store + Clone) {
    let writer = WriterId::random();
    let most = u64::try_from(i64::MAX).expect("positive");
    send(&store, &batch(writer, 1, vec![cell("a", T, 1, most)])).await;
    // The one-second bucket is new, whereas the coarser buckets are full.
    let more = batch(writer, 2, vec![cell("a", T + 1, 1, 7), cell("b", T, 1, 5)]);
    let outcome = store.apply(&more).await.expect("the store is available");
    let ApplyOutcome::Applied(remarks) = outcome else { panic!("{outcome:?}") };
    let rejected = Remark::Rejected { part: Part::Cell(0), reason: DropReason::OutOfRange, message: None };
    let remarks = without_messages(remarks);
    assert!(remarks.contains(&rejected), "{remarks:?}");
    assert_eq!(samples(&store, "a", 1).await, [(T, most), (T + 1, 7)]);
    assert_eq!(samples(&store, "a", 60).await, [(1_585_908_960, most)]);
    assert_eq!(samples(&store, "b", 86_400).await, [(1_585_872_000, 5)]);
}

/// Builds a source batch that adds to a single precision of counts and of visitors.
fn addition(adds: Adds, width: u32, cells: Vec<Cell>) -> Batch {
    let writer = WriterId::random();
    let fence = Fence { writer, kind: FenceKind::Source { life: None }, sequence: 1, after: 0 };
    let one = || Precisions::new([precision(width)]).expect("one is a set");
    let grid = Arc::new(Grid { counts: one(), visitors: one(), distributions: None });
    Batch { cells, adds, ..Batch::empty(Shard::default(), fence, &grid) }
}

/// Applies a batch two times and expects no remarks.
async fn add(store: &impl Store, batch: &Batch) {
    for _ in 0..2 {
        let outcome = store.apply(batch).await.expect("the store is available");
        assert_eq!(outcome, ApplyOutcome::Applied(Vec::new()));
    }
}

async fn samples_are_added_to_one_precision_but_not_to_lifetimes(store: impl Store + Clone) {
    let cells = vec![cell("a", T - 5, 60, 7), cell("b", T - 5, 60, 2), cell("a", T - 5 + 60, 60, 8)];
    add(&store, &addition(Adds::Samples, 60, cells)).await;
    assert_eq!(samples(&store, "a", 60).await, [(1_585_908_960, 7), (1_585_909_020, 8)]);
    assert_eq!(samples(&store, "b", 60).await, [(1_585_908_960, 2)]);
    for width in [1, 5, 300, 3600, 18_000, 86_400] {
        assert_eq!(samples(&store, "a", width).await, [], "{width}");
    }
    assert_eq!(lifetimes(&store, &["a", "b"]).await, [0, 0]);
}

async fn added_samples_are_known_and_cleaned(store: impl Store + Clone) {
    add(&store, &addition(Adds::Samples, 60, vec![cell("a", T - 5, 60, 7)])).await;
    assert_eq!(known(&store).await, BTreeSet::from(["60:a".to_owned()]));
    assert_eq!(clean(&store, T - 5 + 120 * 60 - 1).await, (0, 0));
    assert_eq!(clean(&store, T - 5 + 120 * 60).await, (1, 1));
    assert_eq!(known(&store).await, BTreeSet::new());
}

async fn visitors_are_added_to_one_precision(store: impl Store + Clone) {
    let now = unix_now();
    let (hour, day) = (now - now % 3600, now - now % 86_400);
    for adds in [Adds::Samples, Adds::Lifetimes] {
        let mut batch = addition(adds, 86_400, Vec::new());
        batch.cells = vec![seen("few", day, 0..10), seen("many", day, 0..5000)];
        batch.cells.iter_mut().for_each(|cell| cell.finest = precision(86_400));
        add(&store, &batch).await;
        assert_eq!(uniques(&store, &["few"], &[(86_400, day)]).await, 10);
        let bucket = Bucket { precision: precision(86_400), start: unix(day) };
        let many = sketch_of(&store, "many", bucket).await;
        assert_eq!(Some(&many), seen("many", day, 0..5000).visitors());
        assert_eq!(uniques(&store, &["few", "many"], &[(3600, hour), (3600, day)]).await, 0);
    }
}

async fn added_lifetimes_do_not_change_buckets(store: impl Store + Clone) {
    let batch =
        addition(Adds::Lifetimes, 1, vec![cell("a", 0, 1, 7), cell("b", 0, 1, 2), cell("a", 0, 1, 1)]);
    for _ in 0..2 {
        send(&store, &batch).await;
    }
    assert_eq!(lifetimes(&store, &["a", "b"]).await, [8, 2]);
    assert_eq!(known(&store).await, BTreeSet::new());
    for width in [1, 5, 60, 300, 3600, 18_000, 86_400] {
        assert_eq!(samples(&store, "a", width).await, [], "{width}");
    }
}

async fn additions_and_hits_add_up(store: impl Store + Clone) {
    let writer = WriterId::random();
    send(&store, &batch(writer, 1, vec![cell("a", T, 1, 1)])).await;
    add(&store, &addition(Adds::Samples, 60, vec![cell("a", T, 60, 10)])).await;
    let lifetimes_alone = addition(Adds::Lifetimes, 1, vec![cell("a", 0, 1, 100)]);
    add(&store, &lifetimes_alone).await;
    send(&store, &batch(writer, 2, vec![cell("a", T, 1, 1000)])).await;
    assert_eq!(samples(&store, "a", 1).await, [(T, 1001)]);
    assert_eq!(samples(&store, "a", 60).await, [(1_585_908_960, 1011)]);
    assert_eq!(samples(&store, "a", 3600).await, [(1_585_908_000, 1001)]);
    assert_eq!(lifetimes(&store, &["a"]).await, [1101]);
}

async fn an_added_lifetime_saturates_at_the_maximum(store: impl Store + Clone) {
    let most = u64::try_from(i64::MAX).expect("positive");
    for count in [most, 7] {
        let cells = vec![cell("a", 0, 1, count), cell("b", 0, 1, 1)];
        let outcome =
            store.apply(&addition(Adds::Lifetimes, 1, cells)).await.expect("the store is available");
        assert!(matches!(outcome, ApplyOutcome::Applied(_)), "{outcome:?}");
    }
    assert_eq!(lifetimes(&store, &["b"]).await, [2]);
    assert!((most..=most + 7).contains(&lifetimes(&store, &["a"]).await[0]));
}

async fn counters_with_a_lifetime_are_listed_even_without_samples(store: impl Store + Clone) {
    let counted = async || {
        let (mut counters, mut cursor) = (BTreeSet::new(), None);
        loop {
            let page = store.counted(Shard::default(), cursor).await.expect("readable");
            assert_eq!(page.unreadable, []);
            counters.extend(page.counters);
            cursor = page.next;
            if cursor.is_none() {
                return counters;
            }
        }
    };
    assert_eq!(counted().await, BTreeSet::new());
    let names: Vec<_> = (0..2500).map(|n| format!("/{n}")).collect();
    let writer = WriterId::random();
    for (sequence, some) in (1..).zip(names.chunks(100)) {
        let cells = some.iter().map(|counter| cell(counter, T, 86_400, 1)).collect();
        send(&store, &batch(writer, sequence, cells)).await;
    }
    clean(&store, T + 1000 * 86_400).await;
    assert!(known(&store).await.is_empty());
    assert_eq!(counted().await, names.iter().map(|counter| name(counter)).collect());
    store.forget(&name("/7"), &Grid::default(), unix(T)).await.expect("the store is available");
    assert_eq!(counted().await.len(), 2499);
}

async fn hits_past_every_retention_add_only_to_the_lifetime(store: impl Store + Clone) {
    // This is coarser than any precision, so no bucket exists.
    let cells = vec![cell("a", 0, 100_000, 7), cell("b", 0, 100_000, 1), cell("a", T, 86_400, 2)];
    let batch = batch(WriterId::random(), 1, cells);
    assert_eq!(batch.expired_hits(), 8);
    for _ in 0..2 {
        send(&store, &batch).await;
    }
    let lifetimes = store.lifetimes(&[name("a"), name("b")]).await.expect("readable");
    assert_eq!(lifetimes, [Ok(9), Ok(1)]);
    assert_eq!(samples(&store, "a", 86_400).await, [(T - T % 86_400, 2)]);
    assert_eq!(samples(&store, "b", 86_400).await, []);
    assert_eq!(known(&store).await, BTreeSet::from(["86400:a".to_owned()]));
}

async fn hits_far_ahead_of_the_clock_are_rejected(store: impl Store + Clone) {
    let now = Timestamp::now().as_unix();
    let ahead = now + 26 * 3600;
    let counts = [cell("a", ahead, 1, 5), cell("a", now, 1, 2)];
    let cells = counts.into_iter().chain([seen("a", ahead, 0..5), seen("a", now, 0..2)]).collect();
    let batch = batch(WriterId::random(), 1, cells);
    let outcome = store.apply(&batch).await.expect("the store is available");
    let ApplyOutcome::Applied(mut remarks) = outcome else { panic!("{outcome:?}") };
    remarks.retain(|remark| !matches!(remark, Remark::NewLifetime { .. }));
    let rejected = |part| Remark::Rejected { part, reason: DropReason::Ahead, message: None };
    let expected = [rejected(Part::Cell(0)), rejected(Part::Cell(2))];
    assert!(remarks.len() == 2 && expected.iter().all(|one| remarks.contains(one)), "{remarks:?}");
    assert_eq!(samples(&store, "a", 1).await, [(now, 2)]);
    let buckets = [now, ahead].map(|at| (86_400, at / 86_400 * 86_400));
    assert_eq!(uniques(&store, &["a"], &buckets).await, 2);
    assert_eq!(store.lifetimes(&[name("a")]).await.expect("readable"), [Ok(2)]);
}
