//! Merges the replies of sites.

use super::Replies;
use crate::visits::store::{Extent, KnownReading, Readings, Unreadable};

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

/// Adds up the values of each counter.
pub(super) fn values(Replies { all, missing }: Replies<Readings>) -> Readings {
    let known = all.into_iter().map(|mut site| {
        for unreadable in site.counters.iter_mut().filter_map(|reading| reading.unreadable.as_mut()) {
            // The values of the other sites are known.
            if unreadable.extent == Extent::All {
                unreadable.extent = Extent::Part;
            }
        }
        site
    });
    let sum = known.reduce(|mut sum, site| {
        sum.merge(site, u64::saturating_add);
        sum
    });
    let mut sum = sum.unwrap_or_default();
    for reading in &mut sum.counters {
        reading.unreadable = Unreadable::merge(missing.clone(), reading.unreadable.take());
    }
    sum
}

/// Adds up the lifetimes of a counter.
pub(super) fn lifetime(
    sites: Vec<Result<u64, Unreadable>>,
    missing: Option<&Unreadable>,
) -> Result<u64, Unreadable> {
    let known = missing.map_or(Ok(0), |missing| Err(missing.clone()));
    sites.into_iter().fold(known, |sum, one| Ok(sum?.saturating_add(one?)))
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
