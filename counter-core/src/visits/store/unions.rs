//! Visitor counts for unions of buckets, from sketches that are read sequentially.

use std::collections::BTreeMap;

use super::read::Read;
use super::reading::Unreadable;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::sketch::Sketch;
use crate::time::Bucket;

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
        store: &dyn Read,
        counters: &[CounterName],
        unions: &[Vec<Bucket>],
    ) -> Result<Vec<Vec<Result<u64, Unreadable>>>, Error> {
        let mut counted = Self::new(counters.len(), unions);
        let all = counted.buckets();
        let mut buckets = &all[..];
        while !buckets.is_empty() {
            // The store decides how many buckets it returns.
            let sketches = store.sketches(counters, buckets).await?;
            let (read, left) = buckets.split_at(sketches.len().clamp(1, buckets.len()));
            for (bucket, sketches) in read.iter().zip(&sketches) {
                sketches
                    .iter()
                    .enumerate()
                    .for_each(|(counter, sketch)| counted.add(counter, *bucket, sketch));
            }
            buckets = left;
        }
        Ok(counted.counts())
    }

    pub(crate) fn new(counters: usize, unions: &[Vec<Bucket>]) -> Self {
        let empty = |buckets: &Vec<_>| {
            Ok(if buckets.len() <= 1 { Union::Count(0) } else { Union::Sketch(Sketch::new()) })
        };
        let mut places: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (place, buckets) in unions.iter().enumerate() {
            buckets.iter().for_each(|bucket| places.entry(*bucket).or_default().push(place));
        }
        Self { places, unions: vec![unions.iter().map(empty).collect(); counters] }
    }

    /// Returns the buckets to read, by precision and in ascending order.
    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        self.places.keys().copied().collect()
    }

    /// Adds the visitors of a counter in a bucket. This must be called just once for a bucket.
    pub(crate) fn add(&mut self, counter: usize, bucket: Bucket, sketch: &Result<Sketch, Unreadable>) {
        for place in self.places.get(&bucket).into_iter().flatten() {
            let union = &mut self.unions[counter][*place];
            match (union.as_mut(), sketch) {
                (Ok(Union::Sketch(union)), Ok(sketch)) => union.merge(sketch),
                (Ok(Union::Count(count)), Ok(sketch)) => *count = sketch.estimate(),
                (Ok(_), Err(unreadable)) => *union = Err(unreadable.clone()),
                (Err(_), _) => {}
            }
        }
    }

    /// Returns the estimates by counter, then by union.
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
