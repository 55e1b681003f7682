//! Visitor counts for ranges of buckets, from sketches that are read sequentially.

use std::collections::BTreeSet;
use std::ops::Range;

use super::read::Read;
use super::reading::Unreadable;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::sketch::Sketch;
use crate::time::{Bucket, Precision, Timestamp};

/// The unions of visitors over ranges of buckets, by counter.
#[derive(Debug)]
pub(crate) struct Unions<'a> {
    precision: Precision,
    ranges: &'a [Range<Timestamp>],
    /// Unions by counter, then by range.
    unions: Vec<Vec<Result<Union, Unreadable>>>,
}

#[derive(Clone, Debug)]
enum Union {
    Sketch(Sketch),
    /// The estimate for a range with a single bucket, where we don't need to keep the sketch.
    Count(u64),
}

impl<'a> Unions<'a> {
    /// Reads the sketches of all buckets, and returns the estimates by counter, then by range.
    pub(crate) async fn read(
        store: &dyn Read,
        counters: &[CounterName],
        precision: Precision,
        ranges: &'a [Range<Timestamp>],
    ) -> Result<Vec<Vec<Result<u64, Unreadable>>>, Error> {
        let mut unions = Self::new(counters.len(), precision, ranges);
        let all = unions.starts();
        let mut starts = &all[..];
        while !starts.is_empty() {
            let buckets: Vec<_> = starts.iter().map(|&start| Bucket { precision, start }).collect();
            // The store decides how many buckets it returns.
            let sketches = store.sketches(counters, &buckets).await?;
            let (read, left) = starts.split_at(sketches.len().clamp(1, starts.len()));
            for (start, sketches) in read.iter().zip(&sketches) {
                sketches.iter().enumerate().for_each(|(counter, sketch)| unions.add(counter, *start, sketch));
            }
            starts = left;
        }
        Ok(unions.counts())
    }

    pub(crate) fn new(counters: usize, precision: Precision, ranges: &'a [Range<Timestamp>]) -> Self {
        let is_one = |range: &Range<_>| precision.starts(range.clone()).nth(1).is_none();
        let empty = |range| Ok(if is_one(range) { Union::Count(0) } else { Union::Sketch(Sketch::new()) });
        Self { precision, ranges, unions: vec![ranges.iter().map(empty).collect(); counters] }
    }

    /// Returns the starts of the buckets to read, in ascending order.
    pub(crate) fn starts(&self) -> Vec<Timestamp> {
        let starts = self.ranges.iter().flat_map(|range| self.precision.starts(range.clone()));
        starts.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Adds the visitors of a counter in the bucket starting at `start`. This must be called just once for a
    /// bucket.
    pub(crate) fn add(&mut self, counter: usize, start: Timestamp, sketch: &Result<Sketch, Unreadable>) {
        let unions = self.unions[counter].iter_mut().zip(self.ranges);
        for (union, _) in unions.filter(|(_, range)| range.contains(&start)) {
            match (union.as_mut(), sketch) {
                (Ok(Union::Sketch(union)), Ok(sketch)) => union.merge(sketch),
                (Ok(Union::Count(count)), Ok(sketch)) => *count = sketch.estimate(),
                (Ok(_), Err(unreadable)) => *union = Err(unreadable.clone()),
                (Err(_), _) => {}
            }
        }
    }

    /// Returns the estimates by counter, then by range.
    pub(crate) fn counts(self) -> Vec<Vec<Result<u64, Unreadable>>> {
        let count = |union| match union {
            Union::Sketch(sketch) => sketch.estimate(),
            Union::Count(count) => count,
        };
        let of_counter =
            |unions: Vec<Result<_, _>>| unions.into_iter().map(|union| union.map(count)).collect();
        self.unions.into_iter().map(of_counter).collect()
    }
}
