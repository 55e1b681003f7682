//! Visitor counts for unions of buckets, from sketches that are read sequentially.

use std::collections::BTreeMap;

use super::read::Read;
use super::reading::{Query, Reading, Unreadable};
use super::value::Value;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::sketch::Sketch;
use crate::time::{Bucket, Kind, Precision};

/// The unions of visitors over buckets, by counter.
#[derive(Debug)]
pub(crate) struct Unions {
    /// The unions of each bucket, by index.
    places: BTreeMap<Bucket, Vec<usize>>,
    /// Unions by counter, then in the given order.
    unions: Vec<Vec<Result<Union, Unreadable>>>,
}

#[derive(Clone, Debug)]
enum Union {
    Sketch(Sketch),
    /// The estimate for a single bucket, where we don't need to keep the sketch.
    Count(u64),
}

impl Unions {
    /// Reads the sketches of all buckets, and returns the estimates by counter, then by union.
    pub(crate) async fn read(
        store: &(impl Read + ?Sized),
        counters: &[CounterName],
        unions: &[Vec<Bucket>],
    ) -> Result<Vec<Vec<Result<u64, Unreadable>>>, Error> {
        let mut counted = Self::new(counters.len(), unions);
        let buckets: Vec<_> = counted.places.keys().copied().collect();
        for run in buckets.chunk_by(|one, next| one.precision == next.precision && one.end() == next.start) {
            let (precision, mut left) = (run[0].precision, run);
            while let (Some(first), Some(last)) = (left.first(), left.last()) {
                let range = first.start..last.end();
                let query = Query { counters, precision, range, retained: u32::MAX };
                let read = store.values(Kind::Visitors, query).await?;
                // The store decides how many buckets it returns.
                let end = left.partition_point(|bucket| bucket.start < read.end).max(1);
                for (counter, reading) in read.counters.into_iter().enumerate() {
                    counted.add(counter, precision, reading, &left[..end]);
                }
                left = &left[end..];
            }
        }
        Ok(counted.counts())
    }

    fn new(counters: usize, unions: &[Vec<Bucket>]) -> Self {
        let empty = |buckets: &Vec<_>| {
            Ok(if buckets.len() <= 1 { Union::Count(0) } else { Union::Sketch(Sketch::new()) })
        };
        let mut places: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (place, buckets) in unions.iter().enumerate() {
            buckets.iter().for_each(|bucket| places.entry(*bucket).or_default().push(place));
        }
        Self { places, unions: vec![unions.iter().map(empty).collect(); counters] }
    }

    /// Adds the visitors of a counter in these buckets. This must be called just once for a bucket.
    fn add(&mut self, counter: usize, precision: Precision, reading: Reading, buckets: &[Bucket]) {
        for (start, value) in &reading.values {
            let Value::Visitors(sketch) = value else { continue };
            for place in self.places.get(&Bucket { precision, start: *start }).into_iter().flatten() {
                match &mut self.unions[counter][*place] {
                    Ok(Union::Sketch(union)) => union.merge(sketch),
                    Ok(Union::Count(count)) => *count = sketch.estimate(),
                    Err(_) => {}
                }
            }
        }
        let Some(unreadable) = reading.unreadable else { return };
        for bucket in buckets.iter().filter(|bucket| unreadable.extent.includes(bucket.start)) {
            for place in self.places.get(bucket).into_iter().flatten() {
                self.unions[counter][*place] = Err(unreadable.clone());
            }
        }
    }

    /// Returns the estimates by counter, then by union.
    fn counts(self) -> Vec<Vec<Result<u64, Unreadable>>> {
        let count = |union| match union {
            Union::Sketch(sketch) => sketch.estimate(),
            Union::Count(count) => count,
        };
        let of_counter =
            |unions: Vec<Result<_, _>>| unions.into_iter().map(|union| union.map(count)).collect();
        self.unions.into_iter().map(of_counter).collect()
    }
}
