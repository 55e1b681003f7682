use proptest::prelude::*;

use super::*;
use crate::time::Precision;
use crate::visits::store::SAMPLES;

fn names() -> Vec<CounterName> {
    ["(other)", "a", "b"].map(|name| CounterName::new(name).expect("a name")).to_vec()
}

fn grid() -> Grid {
    let set = |widths: &[u32]| {
        let widths = widths.iter().map(|w| Precision::try_from(*w).expect("not 0"));
        Precisions::new(widths).expect("a set")
    };
    Grid { counts: set(&[1, 5, 18, 60]), visitors: set(&[10, 40]), distributions: Some(set(&[6, 15, 60])) }
}

#[test]
fn a_long_outage_leaves_a_bounded_number_of_cells() {
    let (grid, mut pending) = (grid(), Pending::default());
    for second in 0..40_000 {
        let now = Timestamp::from_unix(1_000_000 + second);
        pending.add(1, now, 1, &grid);
        pending.raise(1, now, Register::of(&second.to_le_bytes()), &grid);
        pending.measure(1, now, Bin::status(200), 1, &grid);
        if second % 100 == 0 {
            pending.coarsen(now, &grid);
            assert!(pending.len() <= 120 * (4 + 2 + 3) * 2 + 100, "{}", pending.len());
        }
    }
    assert_eq!(pending.hits(), 40_000);
    let chunks = pending.take(&names(), &grid, SAMPLES);
    let expired = chunks.iter().flat_map(|chunk| &chunk.cells);
    let expired: Vec<_> = expired.filter(|cell| cell.finest == Precision::COARSEST).collect();
    assert!(matches!(&expired[..], [one] if (30_000..33_000).contains(&one.count)), "{expired:?}");
}

#[test]
fn a_copy_shares_its_sketches_until_one_of_both_is_raised() {
    let (grid, mut pending) = (grid(), Pending::default());
    for counter in 0..2 {
        pending.raise(counter, Timestamp::from_unix(1000), Register::of(b"one"), &grid);
    }
    let copy = pending.clone();
    pending.raise(1, Timestamp::from_unix(1000), Register::of(b"another"), &grid);
    let is_shared = |(key, sketch): (&Key, &Arc<Sketch>)| Arc::ptr_eq(sketch, &copy.sketches[key]);
    assert_eq!(pending.sketches.iter().filter(|one| is_shared(*one)).count(), 1);
    assert!(copy.sketches.values().all(|sketch| sketch.registers().count() == 1));
}

#[test]
fn no_chunk_is_larger_than_its_bounds() {
    let (grid, mut pending) = (grid(), Pending::default());
    for second in 0..3000 {
        pending.add(second % 3, Timestamp::from_unix(u64::from(second)), 2, &grid);
    }
    for n in 0..30_000_u64 {
        pending.raise(2, Timestamp::from_unix(n % 70), Register::of(&n.to_le_bytes()), &grid);
    }
    for n in 0..3000 {
        pending.measure(1, Timestamp::from_unix(0), Bin::status(n % 700), 1, &grid);
    }
    let chunks = pending.take(&names(), &grid, SAMPLES);
    assert!(chunks.len() > 5, "{}", chunks.len());
    assert!(chunks.iter().all(|chunk| chunk.cost.work <= SAMPLES && chunk.cost.bytes <= SAMPLES * BYTES));
    let hits: u64 = chunks.iter().flat_map(|chunk| &chunk.cells).map(|cell| cell.count).sum();
    assert_eq!((hits, pending.len()), (6000, 0));
    let bins = || chunks.iter().flat_map(|chunk| &chunk.bins).map(|cell| &cell.bins);
    assert!(bins().all(|bins| bins.len() <= BINS && bins.is_sorted()));
    assert_eq!(bins().flatten().map(|(_, count)| count).sum::<u64>(), 3000);
}

#[test]
fn a_chunk_costs_as_many_samples_as_it_changes() {
    let (grid, mut pending) = (grid(), Pending::default());
    for n in 0..9000_u64 {
        let counter = u32::try_from(n % 3).expect("small");
        pending.add(counter, Timestamp::from_unix(n * n % 4001), 1, &grid);
    }
    pending.coarsen(Timestamp::from_unix(4500), &grid);
    for chunk in pending.take(&names(), &grid, 100) {
        let mut changed = std::collections::BTreeSet::new();
        for cell in &chunk.cells {
            let kept = grid.counts.iter().filter(|kept| kept.precision >= cell.finest);
            changed.extend(kept.map(|kept| (cell.counter.clone(), kept.precision.bucket(cell.start))));
        }
        assert_eq!(chunk.cost.work, changed.len());
    }
}

#[test]
fn too_many_bins_are_kept_by_coarser_precisions_and_none_is_lost() {
    let (grid, mut pending) = (grid(), Pending::default());
    let set = grid.distributions.as_ref().expect("there are distributions");
    for n in 0..6000_u16 {
        pending.measure(1, Timestamp::from_unix(u64::from(n)), Bin::status(n % 7), 1, &grid);
    }
    let press_bins = |pending: &mut Pending, most| {
        press(&mut pending.bins, set, most, Vec::len, |all, some| merge_bins(all, &some));
    };
    let bins = |pending: &Pending| pending.bins.values().map(Vec::len).sum::<usize>();
    let count = |pending: &Pending| pending.bins.values().flatten().map(|(_, count)| count).sum::<u64>();
    let before = bins(&pending);
    press_bins(&mut pending, before);
    assert_eq!((bins(&pending), count(&pending)), (before, 6000));
    press_bins(&mut pending, before / 2);
    assert!(bins(&pending) <= before / 2 && pending.bins.keys().all(|key| key.finest == 1));
    press_bins(&mut pending, 10);
    assert_eq!((bins(&pending), count(&pending)), (7 * 100, 6000));
}

proptest! {
    #[test]
    fn folding_never_moves_a_hit_to_another_bucket_of_a_precision_that_wants_it(
        hits in prop::collection::vec((1_u32..3, 0_u64..4000, 1_u64..5), 0..200),
        now in 0_u64..9000,
    ) {
        let (grid, mut pending) = (grid(), Pending::default());
        let (epoch, names) = (1_000_003, names());
        let now = Timestamp::from_unix(epoch + now);
        let mut expected = std::collections::BTreeMap::new();
        let mut unwanted = std::collections::BTreeMap::new();
        for (counter, at, count) in hits {
            let at = Timestamp::from_unix(epoch + at);
            pending.add(counter, at, count, &grid);
            match grid.counts.finest_wanted(0, at, now) {
                None => *unwanted.entry(names[counter as usize].clone()).or_insert(0) += count,
                Some(finest) => for (_, kept) in grid.counts.from(finest) {
                    let bucket = kept.precision.bucket(at);
                    *expected.entry((names[counter as usize].clone(), bucket)).or_insert(0) += count;
                }
            }
        }
        pending.coarsen(now, &grid);
        let (mut sums, mut expired) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
        for cell in pending.take(&names, &grid, SAMPLES).iter().flat_map(|chunk| &chunk.cells) {
            if cell.finest == Precision::COARSEST {
                *expired.entry(cell.counter.clone()).or_insert(0) += cell.count;
            }
            for kept in grid.counts.iter().filter(|kept| kept.precision >= cell.finest) {
                let bucket = kept.precision.bucket(cell.start);
                *sums.entry((cell.counter.clone(), bucket)).or_insert(0) += cell.count;
            }
        }
        prop_assert_eq!((sums, expired), (expected, unwanted));
    }

    #[test]
    fn folding_never_moves_a_bin_to_another_bucket_of_a_precision_that_wants_it(
        measured in prop::collection::vec((1_u32..3, 0_u64..4000, 200..203_u16), 0..200),
        now in 0_u64..9000,
    ) {
        let (grid, mut pending) = (grid(), Pending::default());
        let set = grid.distributions.as_ref().expect("there are distributions");
        let (epoch, names) = (1_000_003, names());
        let now = Timestamp::from_unix(epoch + now);
        let mut expected = std::collections::BTreeMap::new();
        for (counter, at, status) in measured {
            let (at, bin) = (Timestamp::from_unix(epoch + at), Bin::status(status));
            pending.measure(counter, set.base().bucket(at).start, bin, 1, &grid);
            for (_, kept) in set.finest_wanted(0, at, now).into_iter().flat_map(|finest| set.from(finest)) {
                let bucket = kept.precision.bucket(at);
                *expected.entry((names[counter as usize].clone(), bucket, bin)).or_insert(0) += 1;
            }
        }
        pending.coarsen(now, &grid);
        let mut sums = std::collections::BTreeMap::new();
        for cell in pending.take(&names, &grid, SAMPLES).iter().flat_map(|chunk| &chunk.bins) {
            for kept in set.iter().filter(|kept| kept.precision >= cell.finest) {
                let bucket = kept.precision.bucket(cell.start);
                for (bin, count) in &cell.bins {
                    *sums.entry((cell.counter.clone(), bucket, *bin)).or_insert(0) += count;
                }
            }
        }
        prop_assert_eq!(sums, expected);
    }
}
