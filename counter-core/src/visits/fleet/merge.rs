//! Merges the replies of sites.

use std::collections::BTreeMap;

use super::Replies;
use crate::sketch::Sketch;
use crate::time::Sample;
use crate::visits::store::{BinReading, Extent, KnownReading, Reading, Unreadable};

impl<T> Replies<Vec<T>> {
    /// Merges the replies for each of `length` items, and passes the site that is missing, if any.
    pub(super) fn each<R>(self, length: usize, merge: impl Fn(Vec<T>, Option<&Unreadable>) -> R) -> Vec<R> {
        let mut items: Vec<_> = (0..length).map(|_| Vec::new()).collect();
        for reply in self.all {
            items.iter_mut().zip(reply).for_each(|(item, one)| item.push(one));
        }
        items.into_iter().map(|item| merge(item, self.missing.as_ref())).collect()
    }
}

/// Adds up the samples of a counter.
pub(super) fn samples(
    sites: Vec<Result<Reading, Unreadable>>,
    missing: Option<&Unreadable>,
) -> Result<Reading, Unreadable> {
    let (mut sum, mut unreadable) = (BTreeMap::<_, u64>::new(), missing.cloned());
    for reading in sites {
        // The counts of the other sites are known.
        let reading = reading.unwrap_or_else(|unreadable| unreadable.with_extent(Extent::Part).into());
        for Sample { start, count } in reading.samples {
            let sum = sum.entry(start).or_default();
            *sum = sum.saturating_add(count);
        }
        unreadable = both(unreadable, reading.unreadable);
    }
    let samples = sum.into_iter().map(|(start, count)| Sample { start, count }).collect();
    Ok(Reading { samples, unreadable })
}

/// Adds up the distributions of a counter.
pub(super) fn bins(sites: Vec<BinReading>, missing: Option<&Unreadable>) -> BinReading {
    let (mut sum, mut unreadable) = (BTreeMap::<_, BTreeMap<_, u64>>::new(), missing.cloned());
    for reading in sites {
        for (start, bins) in reading.buckets {
            let bucket = sum.entry(start).or_default();
            for (bin, count) in bins {
                let sum = bucket.entry(bin).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        unreadable = both(unreadable, reading.unreadable);
    }
    let buckets = sum.into_iter().map(|(start, bins)| (start, bins.into_iter().collect())).collect();
    BinReading { buckets, unreadable }
}

/// Adds up the lifetimes of a counter.
pub(super) fn lifetime(
    sites: Vec<Result<u64, Unreadable>>,
    missing: Option<&Unreadable>,
) -> Result<u64, Unreadable> {
    let known = missing.map_or(Ok(0), |missing| Err(missing.clone()));
    sites.into_iter().fold(known, |sum, one| Ok(sum?.saturating_add(one?)))
}

/// Returns the union of visitors.
pub(super) fn sketch(
    sites: Vec<Result<Sketch, Unreadable>>,
    missing: Option<&Unreadable>,
) -> Result<Sketch, Unreadable> {
    let known = missing.map_or(Ok(Sketch::new()), |missing| Err(missing.clone()));
    sites.into_iter().fold(known, |union, one| {
        let mut union = union?;
        union.merge(&one?);
        Ok(union)
    })
}

/// Returns whether any site has a counter.
pub(super) fn contained(
    sites: Vec<Result<bool, Unreadable>>,
    missing: Option<&Unreadable>,
) -> Result<bool, Unreadable> {
    if sites.contains(&Ok(true)) {
        return Ok(true);
    }
    let unreadable = sites.into_iter().find_map(Result::err).or(missing.cloned());
    unreadable.map_or(Ok(false), Err)
}

/// Returns the counters of all sites.
pub(super) fn known(Replies { all, missing }: Replies<KnownReading>) -> KnownReading {
    let mut merged = KnownReading::default();
    merged.unreadable.extend(missing);
    for reading in all {
        merged.counters.extend(reading.counters);
        merged.unreadable.extend(reading.unreadable);
    }
    merged.counters.sort_unstable();
    merged.counters.dedup();
    merged
}

/// Combines two unreadable entries. Only the first is named.
fn both(one: Option<Unreadable>, other: Option<Unreadable>) -> Option<Unreadable> {
    match (one, other) {
        (Some(mut one), Some(other)) => {
            one.extent.merge(other.extent);
            Some(one)
        }
        (one, other) => one.or(other),
    }
}
