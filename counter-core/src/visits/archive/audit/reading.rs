//! Reads a store for an audit.

use std::ops::Range;

use crate::error::Error;
use crate::family::name::CounterName;
use crate::time::{Kind, Precision, Timestamp};
use crate::visits;
use crate::visits::archive::listed::sketches;
use crate::visits::store::{BinReading, Store, Unreadable, Value};

/// The values of a page in a store, by counter.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) counters: Vec<CounterReading>,
    /// Number of buckets that were read, from the start of the requested list.
    pub(super) buckets: usize,
}

/// The values of a counter in a store, ordered by bucket start.
#[derive(Debug, Default)]
pub(super) struct CounterReading {
    pub(super) values: Vec<(Timestamp, Value)>,
    /// Starts of the buckets that can't be read.
    pub(super) unknown: Vec<Timestamp>,
    pub(super) unreadable: u64,
}

/// Number of buckets for which to compare distributions at a time: up to about 10 MB for a page.
const BIN_BUCKETS: usize = 4;

impl Reading {
    pub(super) async fn of(
        store: &dyn Store,
        values: Kind,
        precision: Precision,
        counters: &[CounterName],
        starts: &[Timestamp],
    ) -> Result<Self, Error> {
        match values {
            Kind::Counts => Self::counts(store, precision, counters, starts).await,
            Kind::Visitors => Self::visitors(store, precision, counters, starts).await,
            Kind::Distributions => Self::bins(store, precision, counters, starts).await,
        }
    }

    async fn counts(
        store: &dyn Store,
        precision: Precision,
        counters: &[CounterName],
        starts: &[Timestamp],
    ) -> Result<Self, Error> {
        let range = range(starts);
        let of_counter = |reading: Result<visits::Reading, _>| match reading {
            Ok(visits::Reading { samples, unreadable }) => CounterReading {
                values: samples
                    .into_iter()
                    .map(|sample| (sample.start, Value::Count(sample.count)))
                    .collect(),
                unreadable: u64::from(unreadable.is_some()),
                unknown: unknown(unreadable.as_ref(), starts),
            },
            Err(_) => CounterReading { unknown: starts.to_vec(), unreadable: 1, ..CounterReading::default() },
        };
        let readings = store.samples(counters, precision, range, u32::MAX).await?;
        Ok(Self { counters: readings.into_iter().map(of_counter).collect(), buckets: starts.len() })
    }

    async fn visitors(
        store: &dyn Store,
        precision: Precision,
        counters: &[CounterName],
        starts: &[Timestamp],
    ) -> Result<Self, Error> {
        let mut all: Vec<_> = counters.iter().map(|_| CounterReading::default()).collect();
        let mut left = starts;
        for (start, sketches) in sketches(store, counters, precision, &mut left).await? {
            for (found, sketch) in all.iter_mut().zip(sketches) {
                match sketch {
                    Ok(sketch) if sketch.is_empty() => {}
                    Ok(sketch) => found.values.push((start, Value::Visitors(sketch))),
                    Err(_) => {
                        found.unknown.push(start);
                        found.unreadable += 1;
                    }
                }
            }
        }
        Ok(Self { counters: all, buckets: starts.len() - left.len() })
    }

    async fn bins(
        store: &dyn Store,
        precision: Precision,
        counters: &[CounterName],
        starts: &[Timestamp],
    ) -> Result<Self, Error> {
        let starts = &starts[..starts.len().min(BIN_BUCKETS)];
        let of_counter = |BinReading { buckets, unreadable }: BinReading| CounterReading {
            values: buckets
                .into_iter()
                .filter(|(_, bins)| !bins.is_empty())
                .map(|(start, bins)| (start, Value::Distribution(bins)))
                .collect(),
            unreadable: u64::from(unreadable.is_some()),
            unknown: unknown(unreadable.as_ref(), starts),
        };
        let readings = store.bins(counters, precision, range(starts)).await?;
        Ok(Self { counters: readings.into_iter().map(of_counter).collect(), buckets: starts.len() })
    }
}

/// Returns the buckets with an unknown value.
fn unknown(unreadable: Option<&Unreadable>, starts: &[Timestamp]) -> Vec<Timestamp> {
    let includes = |start: &&Timestamp| unreadable.is_some_and(|one| one.extent.includes(**start));
    starts.iter().filter(includes).copied().collect()
}

/// Returns the range that contains all starts.
fn range(starts: &[Timestamp]) -> Range<Timestamp> {
    let range = starts.first().zip(starts.last()).map(|(first, last)| *first..last.plus(1));
    range.unwrap_or(Timestamp::MIN..Timestamp::MIN)
}
