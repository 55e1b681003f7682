//! Contract tests for each kind of unique counter in any store, including edge cases.

use counter_core::sketch::Sketch;
use counter_core::unique::store::{Included, UniqueKey};
use counter_core::unique::{
    AdaptiveUniqueCounter, Distinct, ExcludingCounter, HllUniqueCounter, SetUniqueCounter, UniqueCounter,
    UniqueStore,
};
use counter_core::visitor::VisitorKey;
use counter_core::{ErrorKind, VisitorId};

use crate::stores;
use crate::support::name;

stores::on! {
    [memory redis redis_in_shards redis_without_scripts sqlite sqlite_in_memory postgres mariadb]
    {
        an_item_is_new_once
        many_items_in_one_call_count_once_each
        an_unused_counter_is_empty
        empty_items_and_empty_calls_are_accepted
        an_excluded_item_can_be_included_again
        a_hyperloglog_counts_like_our_sketch
        an_adaptive_counter_is_exact_up_to_its_threshold_and_then_estimates
        a_call_over_the_threshold_returns_the_number_of_new_items
        counters_with_different_names_or_kinds_are_independent
        a_union_is_exact_for_sets_and_estimated_with_a_hyperloglog
        an_intersection_is_exact_for_sets_and_estimated_with_a_hyperloglog
        a_merged_counter_contains_all_items_of_its_inputs
        merging_registers_converts_an_adaptive_counter
        a_forgotten_counter_starts_from_zero
        out_of_bounds_arguments_are_rejected_without_changes
        sets_with_too_many_items_are_not_read
    }
}

pub(super) fn set(store: &(impl UniqueStore + Clone), counter: &str) -> SetUniqueCounter {
    SetUniqueCounter::new(store.clone(), name(counter))
}

pub(super) fn hll(store: &(impl UniqueStore + Clone), counter: &str) -> HllUniqueCounter {
    HllUniqueCounter::new(store.clone(), name(counter))
}

pub(super) fn adaptive(
    store: &(impl UniqueStore + Clone),
    counter: &str,
    threshold: u16,
) -> AdaptiveUniqueCounter {
    let threshold = threshold.try_into().expect("a good threshold");
    AdaptiveUniqueCounter::new(store.clone(), name(counter)).threshold(threshold)
}

/// Returns a visitor id that does not change between runs: random ids would sometimes share a register.
pub(super) fn visitor(n: u32) -> VisitorId {
    VisitorKey::new([3; 16]).visitor(&[&n.to_le_bytes()])
}

pub(super) fn visitors(numbers: std::ops::Range<u32>) -> Vec<VisitorId> {
    numbers.map(visitor).collect()
}

pub(super) fn sketch_of(numbers: std::ops::Range<u32>) -> Sketch {
    let mut sketch = Sketch::new();
    for visitor in visitors(numbers) {
        sketch.insert(visitor);
    }
    sketch
}

/// Includes these visitors in as few calls as possible and returns the number of new visitors.
pub(super) async fn include(counter: &impl UniqueCounter, numbers: std::ops::Range<u32>) -> u64 {
    let mut new = 0;
    for some in visitors(numbers).chunks(500) {
        new += counter.include_all(some).await.expect("the store is available").new;
    }
    new
}

pub(super) async fn count(counter: &impl UniqueCounter) -> Distinct {
    counter.count().await.expect("readable")
}

async fn assert_new_once(counter: &impl UniqueCounter) {
    for expected in [true, false, false] {
        assert_eq!(
            counter.include("ann").await.expect("the store is available"),
            expected,
            "{}",
            counter.key()
        );
    }
    assert!(counter.include(visitor(1)).await.expect("the store is available"));
    assert!(!counter.include(&visitor(1)).await.expect("the store is available"));
    assert_eq!(count(counter).await.items(), 2);
}

async fn an_item_is_new_once(store: impl UniqueStore + Clone) {
    assert_new_once(&set(&store, "a")).await;
    assert_new_once(&hll(&store, "a")).await;
    assert_new_once(&adaptive(&store, "a", 1000)).await;
    assert_new_once(&adaptive(&store, "b", 1)).await;
}

async fn assert_each_once(counter: &impl UniqueCounter, exact: bool) {
    for (items, new) in [(["a", "b", "a"], 2), (["b", "c", "c"], 1), (["a", "b", "c"], 0)] {
        let included = counter.include_all(items).await.expect("the store is available");
        assert_eq!(included, Included { new, exact }, "{items:?} of {}", counter.key());
    }
    assert_eq!(count(counter).await.items(), 3);
}

async fn many_items_in_one_call_count_once_each(store: impl UniqueStore + Clone) {
    assert_each_once(&set(&store, "a"), true).await;
    assert_each_once(&hll(&store, "a"), false).await;
    assert_each_once(&adaptive(&store, "a", 3), true).await;
    assert_each_once(&adaptive(&store, "b", 1), false).await;
}

async fn an_unused_counter_is_empty(store: impl UniqueStore + Clone) {
    let nobody = Distinct::Estimated { items: 0, standard_error: 0.0 };
    let (set, hll, adaptive) = (set(&store, "a"), hll(&store, "a"), adaptive(&store, "a", 1000));
    assert_eq!(count(&set).await, Distinct::Exact(0));
    assert_eq!(count(&hll).await, nobody);
    assert_eq!(count(&adaptive).await, Distinct::Exact(0));
    assert!(!set.exclude("ann").await.expect("the store is available"));
    assert_eq!(set.union(&[adaptive.key()]).await.expect("readable"), Distinct::Exact(0));
    assert_eq!(set.union(&[hll.key()]).await.expect("readable"), nobody);
    assert_eq!(hll.intersection(&[set.key()]).await.expect("readable"), Distinct::Exact(0));
    set.merge(&[&set]).await.expect("the store is available");
    hll.merge(&[set.key(), hll.key()]).await.expect("the store is available");
    adaptive.merge(&[adaptive.key(), hll.key()]).await.expect("the store is available");
    assert_eq!(count(&adaptive).await, Distinct::Exact(0));
}

async fn assert_empty_counts(counter: &impl UniqueCounter, exact: bool) {
    let nothing: [&str; 0] = [];
    let included = counter.include_all(nothing).await.expect("the store is available");
    assert_eq!(included, Included { new: 0, exact }, "{}", counter.key());
    assert_eq!(count(counter).await.items(), 0);
    assert!(counter.include("").await.expect("the store is available"));
    assert!(!counter.include("").await.expect("the store is available"));
    assert_eq!(count(counter).await.items(), 1);
    // Bytes that are not valid text, or could break a protocol.
    let odd: [&[u8]; 4] = [b"\0", b"\xff\xfe", b"$5\r\n", b" "];
    assert_eq!(counter.include_all(odd).await.expect("the store is available").new, 4);
    assert_eq!(counter.include_all(odd).await.expect("the store is available").new, 0);
}

async fn empty_items_and_empty_calls_are_accepted(store: impl UniqueStore + Clone) {
    assert_empty_counts(&set(&store, "a"), true).await;
    assert_empty_counts(&hll(&store, "a"), false).await;
    assert_empty_counts(&adaptive(&store, "a", 1000), true).await;
    assert_empty_counts(&adaptive(&store, "b", 2), true).await;
}

async fn an_excluded_item_can_be_included_again(store: impl UniqueStore + Clone) {
    let set = set(&store, "a");
    set.include_all(["ann", "bob"]).await.expect("the store is available");
    assert!(set.exclude("ann").await.expect("the store is available"));
    assert!(!set.exclude("ann").await.expect("the store is available"));
    assert_eq!(count(&set).await, Distinct::Exact(1));
    assert!(set.include("ann").await.expect("the store is available"));
    assert_eq!(count(&set).await, Distinct::Exact(2));
}

async fn a_hyperloglog_counts_like_our_sketch(store: impl UniqueStore + Clone) {
    let hll = hll(&store, "a");
    let mut sketch = Sketch::new();
    // This covers both the sparse and the dense form.
    for some in visitors(0..5000).chunks(500) {
        let raised = some.iter().filter(|visitor| sketch.insert(**visitor)).count() as u64;
        assert_eq!(hll.include_all(some).await.expect("the store is available").new, raised);
        assert_eq!(count(&hll).await.items(), sketch.estimate());
    }
    let counted = count(&hll).await;
    assert!(!counted.is_exact());
    assert!(counted.items().abs_diff(5000) as f64 <= 3.0 * counted.standard_error(), "{counted:?}");
}

async fn an_adaptive_counter_is_exact_up_to_its_threshold_and_then_estimates(
    store: impl UniqueStore + Clone,
) {
    for threshold in [1, 2, 100, 700] {
        let counter = adaptive(&store, &format!("up to {threshold}"), threshold);
        let max = u32::from(threshold);
        assert_eq!(include(&counter, 0..max).await, u64::from(threshold));
        assert_eq!(include(&counter, 0..max).await, 0);
        assert_eq!(count(&counter).await, Distinct::Exact(u64::from(threshold)));
        assert!(counter.include(visitor(max)).await.expect("the store is available"));
        let one_more = sketch_of(0..max + 1);
        assert_eq!(
            (count(&counter).await.is_exact(), count(&counter).await.items()),
            (false, one_more.estimate())
        );
        assert_eq!(include(&counter, 0..max + 1).await, 0);
        include(&counter, 0..3000).await;
        assert_eq!(count(&counter).await.items(), sketch_of(0..3000).estimate());
    }
}

async fn a_call_over_the_threshold_returns_the_number_of_new_items(store: impl UniqueStore + Clone) {
    let counter = adaptive(&store, "a", 100);
    include(&counter, 0..90).await;
    let included = counter.include_all(visitors(80..480)).await.expect("the store is available");
    assert_eq!(included, Included { new: 390, exact: false });
    let included = counter.include_all(visitors(0..10)).await.expect("the store is available");
    assert_eq!(included, Included { new: 0, exact: false });
    assert_eq!(count(&counter).await.items(), sketch_of(0..480).estimate());
}

async fn counters_with_different_names_or_kinds_are_independent(store: impl UniqueStore + Clone) {
    include(&set(&store, "a"), 0..10).await;
    include(&hll(&store, "a"), 0..20).await;
    include(&adaptive(&store, "a", 100), 0..30).await;
    include(&set(&store, "a:b"), 0..40).await;
    assert_eq!(count(&set(&store, "a")).await, Distinct::Exact(10));
    assert_eq!(count(&hll(&store, "a")).await.items(), 20);
    assert_eq!(count(&adaptive(&store, "a", 100)).await, Distinct::Exact(30));
    assert_eq!(count(&set(&store, "a:b")).await, Distinct::Exact(40));
    assert_eq!(count(&set(&store, "b")).await, Distinct::Exact(0));
}

async fn a_union_is_exact_for_sets_and_estimated_with_a_hyperloglog(store: impl UniqueStore + Clone) {
    let (a, b, c) = (set(&store, "a"), adaptive(&store, "b", 1000), adaptive(&store, "c", 10));
    let d = hll(&store, "d");
    include(&a, 0..1500).await;
    include(&b, 1000..1900).await;
    include(&c, 1800..2500).await;
    include(&d, 0..100).await;
    let union = async |others: &[&UniqueKey]| a.union(others).await.expect("readable");
    assert_eq!(union(&[]).await, Distinct::Exact(1500));
    assert_eq!(union(&[b.key(), a.key()]).await, Distinct::Exact(1900));
    for (others, last) in [(vec![b.key(), c.key()], 2500), (vec![d.key()], 1500)] {
        let estimate = union(&others).await;
        assert_eq!((estimate.is_exact(), estimate.items()), (false, sketch_of(0..last).estimate()));
    }
    let all = [a.key(), b.key(), c.key()];
    assert_eq!(d.union(&all).await.expect("readable").items(), sketch_of(0..2500).estimate());
}

async fn an_intersection_is_exact_for_sets_and_estimated_with_a_hyperloglog(store: impl UniqueStore + Clone) {
    let (a, b) = (set(&store, "a"), adaptive(&store, "b", 1000));
    let (c, d) = (hll(&store, "c"), hll(&store, "d"));
    include(&a, 0..1000).await;
    include(&b, 500..1400).await;
    include(&c, 600..3000).await;
    include(&d, 0..2000).await;
    assert_eq!(a.intersection(&[b.key()]).await.expect("readable"), Distinct::Exact(500));
    assert_eq!(a.intersection(&[]).await.expect("readable"), Distinct::Exact(1000));
    for (estimate, common) in [
        (c.intersection(&[d.key()]).await.expect("readable"), 1400),
        (a.intersection(&[b.key(), c.key()]).await.expect("readable"), 400),
        (a.intersection(&[b.key(), c.key(), d.key()]).await.expect("readable"), 400),
    ] {
        let off = estimate.items().abs_diff(common) as f64;
        assert!(!estimate.is_exact() && off <= 2.0 * estimate.standard_error(), "{estimate:?} of {common}");
    }
}

async fn a_merged_counter_contains_all_items_of_its_inputs(store: impl UniqueStore + Clone) {
    let (a, b, c) = (set(&store, "a"), set(&store, "b"), set(&store, "c"));
    include(&a, 0..800).await;
    include(&b, 600..1600).await;
    include(&c, 1500..1700).await;
    a.merge(&[&b, &c]).await.expect("the store is available");
    assert_eq!(count(&a).await, Distinct::Exact(1700));
    a.merge(&[&b, &c]).await.expect("the store is available");
    assert_eq!(count(&a).await, Distinct::Exact(1700));
    assert_eq!((count(&b).await, count(&c).await), (Distinct::Exact(1000), Distinct::Exact(200)));

    let (d, e) = (hll(&store, "d"), hll(&store, "e"));
    include(&d, 1600..2000).await;
    include(&e, 0..10).await;
    for _ in 0..2 {
        e.merge(&[a.key(), d.key()]).await.expect("the store is available");
        assert_eq!(count(&e).await.items(), sketch_of(0..2000).estimate());
    }
    assert_eq!(count(&d).await.items(), sketch_of(1600..2000).estimate());
    // Merge sets only.
    d.merge(&[c.key()]).await.expect("the store is available");
    assert_eq!(count(&d).await.items(), sketch_of(1500..2000).estimate());
}

async fn merging_registers_converts_an_adaptive_counter(store: impl UniqueStore + Clone) {
    let (small, large) = (adaptive(&store, "small", 100), adaptive(&store, "large", 100));
    let (set, hll, empty) = (set(&store, "set"), hll(&store, "hll"), adaptive(&store, "empty", 100));
    include(&small, 0..50).await;
    include(&large, 40..1040).await;
    include(&set, 45..80).await;
    include(&hll, 2000..2010).await;
    small.merge(&[set.key()]).await.expect("the store is available");
    assert_eq!(count(&small).await, Distinct::Exact(80));
    small.merge(&[hll.key()]).await.expect("the store is available");
    let mut expected = sketch_of(0..80);
    expected.merge(&sketch_of(2000..2010));
    assert_eq!((count(&small).await.is_exact(), count(&small).await.items()), (false, expected.estimate()));
    empty.merge(&[large.key(), set.key()]).await.expect("the store is available");
    assert_eq!(count(&empty).await.items(), sketch_of(40..1040).estimate());
    large.merge(&[small.key()]).await.expect("the store is available");
    expected.merge(&sketch_of(40..1040));
    assert_eq!(count(&large).await.items(), expected.estimate());
}

async fn a_forgotten_counter_starts_from_zero(store: impl UniqueStore + Clone) {
    let (set, hll, adaptive) = (set(&store, "a"), hll(&store, "a"), adaptive(&store, "a", 10));
    include(&set, 0..50).await;
    include(&hll, 0..50).await;
    include(&adaptive, 0..50).await;
    adaptive.forget().await.expect("the store is available");
    hll.forget().await.expect("the store is available");
    assert_eq!(count(&adaptive).await, Distinct::Exact(0));
    assert_eq!(count(&hll).await.items(), 0);
    assert_eq!(count(&set).await, Distinct::Exact(50));
    set.forget().await.expect("the store is available");
    set.forget().await.expect("the store is available");
    assert_eq!(include(&set, 0..5).await, 5);
    assert_eq!(include(&adaptive, 0..5).await, 5);
    assert_eq!(count(&adaptive).await, Distinct::Exact(5));
}

async fn out_of_bounds_arguments_are_rejected_without_changes(store: impl UniqueStore + Clone) {
    let counter = set(&store, "a");
    assert!(counter.include([0; 256]).await.expect("it is not too long"));
    let too_long = ErrorKind::ItemTooLong { bytes: 257, max: 256 };
    assert_eq!(counter.include([0; 257]).await.expect_err("it is too long").kind(), &too_long);
    assert_eq!(counter.exclude([0; 257]).await.expect_err("it is too long").kind(), &too_long);
    let many = visitors(0..501);
    assert_eq!(counter.include_all(&many[1..]).await.expect("they are not too many").new, 500);
    let too_many = counter.include_all(&many).await.expect_err("they are too many");
    assert_eq!(too_many.kind(), &ErrorKind::TooManyItems { max: 500 });
    assert_eq!(count(&counter).await, Distinct::Exact(501));

    let other = set(&store, "b");
    let others = [other.key(); 32];
    assert!(counter.union(&others[1..]).await.is_ok());
    let too_many = counter.union(&others).await.expect_err("they are too many");
    assert_eq!(too_many.kind(), &ErrorKind::TooManyCounters { max: 32 });
    assert!(counter.intersection(&others[..4]).await.is_ok());
    let too_many = counter.intersection(&others[..5]).await.expect_err("they are too many");
    assert_eq!(too_many.kind(), &ErrorKind::TooManyCounters { max: 5 });
    let registers =
        store.merge_registers(counter.key(), &sketch_of(0..10)).await.expect_err("a set has items");
    assert_eq!(registers.kind(), &ErrorKind::Rejected);
    assert_eq!(count(&counter).await, Distinct::Exact(501));
}

async fn sets_with_too_many_items_are_not_read(store: impl UniqueStore + Clone) {
    let (a, b) = (set(&store, "a"), set(&store, "b"));
    for counter in [&a, &b] {
        include(counter, 0..3000).await;
    }
    assert!(store.contents(a.key(), 3000).await.is_ok());
    let too_many = store.contents(a.key(), 2999).await.expect_err("there are more");
    assert_eq!(too_many.kind(), &ErrorKind::TooManyItems { max: 2999 });
    // The bound applies to the whole call: 34 times 3,000 items are too many.
    let others = [b.key(); 32];
    assert!(a.union(&others[..31]).await.is_ok());
    let counter = hll(&store, "c");
    counter.merge(&others).await.expect("96,000 items are not too many");
    include(&a, 3000..8000).await;
    let too_many = a.union(&others[..31]).await.expect_err("101,000 items are too many");
    assert_eq!(too_many.kind(), &ErrorKind::TooManyItems { max: 100_000 });
}
