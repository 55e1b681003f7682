use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use super::line::{Dumped, Entry, MAX_CELL_BINS, MAX_COUNT, MAX_LINE_SAMPLES};
use super::part::{Part, parts};
use crate::error::Error;
use crate::family::future::StoreFuture;
use crate::family::line::Lines;
use crate::family::name::CounterName;
use crate::family::writer::WriterId;
use crate::time::{Bucket, Grid, Precision, Sample, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::store::identity::StoreRecord;
use crate::visits::store::{Extent, KnownQuery, Query, Reading, Store, Unreadable, Value, identity};

/// Number of counter names to list in a call, for a precision.
const COUNTERS_PER_PAGE: usize = 1000;

/// Maximum number of unreadable keys to write a line for. Any further keys are only counted.
const MAX_REPORTED: usize = 1000;

/// A dump in progress: see [the module](crate::dump).
///
/// A dump contains the range of [`Stats::reach`](crate::Stats::reach), and the lifetimes. It is not a
/// snapshot: if a hit arrives during the dump, it might be included in all, some or none of the precisions.
/// Unreadable entries are reported in separate lines, and counted in [`dumped`](Self::dumped).
pub struct Dump {
    store: Arc<dyn Store>,
    reach: Arc<Grid>,
    id: WriterId,
    started_at: Timestamp,
    names: Arc<[CounterName]>,
    state: State,
    /// Lines that were created, but not returned yet.
    lines: Lines,
    dumped: Dumped,
    /// Unreadable keys that were reported in a line so far.
    reported: HashSet<String>,
}

enum State {
    Starting,
    Listing,
    /// Reading the current part, if any, before the remaining parts.
    Reading(Option<Part>, Box<dyn Iterator<Item = Part> + Send + Sync>),
    Ended,
}

impl Dump {
    pub(crate) fn new(store: Arc<dyn Store>, reach: Arc<Grid>) -> Self {
        Self {
            store,
            reach,
            id: WriterId::random(),
            started_at: Timestamp::now(),
            names: Arc::default(),
            state: State::Starting,
            lines: Lines::new(),
            dumped: Dumped::default(),
            reported: HashSet::new(),
        }
    }

    /// Returns the next line without the line ending, or `None` at the end.
    ///
    /// # Errors
    /// Fails when the store can't be read; the next call will continue from the same position.
    ///
    /// # Cancel safety
    /// If you drop the future, no line is lost.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        if let Some(line) = self.lines.pop() {
            return Ok(Some(line));
        }
        self.advance().await
    }

    /// Returns the totals of the lines returned so far.
    #[must_use]
    pub const fn dumped(&self) -> Dumped {
        self.dumped
    }

    fn advance(&mut self) -> StoreFuture<'_, Option<String>> {
        Box::pin(async {
            while self.lines.is_empty() {
                match &mut self.state {
                    State::Starting => {
                        let reach = Arc::clone(&self.reach);
                        let record = identity::read(&*self.store).await?.map(|(record, _)| record);
                        let stores: Vec<_> = record.iter().flat_map(StoreRecord::contained).collect();
                        self.push(Entry::begin(self.id, self.started_at, &reach, &stores));
                        self.state = State::Listing;
                    }
                    State::Listing => {
                        let (names, unreadable) = list(&*self.store, &self.reach).await?;
                        self.names = names.into_iter().collect();
                        self.dumped.counters = self.names.len() as u64;
                        unreadable.iter().for_each(|unreadable| self.report(unreadable));
                        let parts = parts(&self.reach, self.started_at, self.names.len());
                        self.state = State::Reading(None, Box::new(parts));
                    }
                    State::Reading(part, parts) => {
                        if part.is_none() {
                            *part = parts.next();
                        }
                        match part.clone() {
                            Some(part) => self.read(&part).await?,
                            None => {
                                self.push(Entry::End(self.dumped));
                                self.state = State::Ended;
                            }
                        }
                    }
                    State::Ended => return Ok(None),
                }
            }
            Ok(self.lines.pop())
        })
    }

    /// Creates the lines of a part, and advances to the rest of it, or to the next part.
    async fn read(&mut self, part: &Part) -> Result<(), Error> {
        let (names, mut rest) = (Arc::clone(&self.names), None);
        match part {
            Part::Values { kind, retention, range, counters } => {
                let (names, precision) = (&names[counters.clone()], retention.precision);
                let retained = retention.samples.get();
                let query = Query { counters: names, precision, range: range.clone(), retained };
                let read = self.store.values(*kind, query).await?;
                let range = read.next(range.start)..range.end;
                let (kind, retention, counters) = (*kind, *retention, counters.clone());
                rest = (!range.is_empty()).then_some(Part::Values { kind, retention, range, counters });
                for (name, reading) in names.iter().zip(read.counters) {
                    reading.unreadable.iter().for_each(|unreadable| self.report(unreadable));
                    self.push_values(precision, name, reading);
                }
            }
            Part::Lifetimes { counters } => {
                let names = &names[counters.clone()];
                let read = self.store.lifetimes(names).await?;
                for (name, count) in names.iter().zip(read) {
                    match count {
                        Ok(0) => {}
                        Ok(count) => {
                            self.dumped.lifetimes += 1;
                            self.push(Entry::lifetime(name, count.min(MAX_COUNT)));
                        }
                        Err(unreadable) => self.report(&unreadable),
                    }
                }
            }
        }
        if let State::Reading(part, _) = &mut self.state {
            *part = rest;
        }
        Ok(())
    }

    fn push_values(&mut self, precision: Precision, counter: &CounterName, reading: Reading) {
        let samples = reading.samples().filter(|sample| (1..=MAX_COUNT).contains(&sample.count));
        self.push_samples(precision, counter, &samples.collect::<Vec<_>>());
        for (start, value) in reading.values {
            let bucket = Bucket { precision, start };
            match value {
                Value::Count(_) => {}
                Value::Visitors(sketch) => {
                    self.dumped.sketches += 1;
                    self.push(Entry::visitors(bucket, counter, &sketch));
                }
                Value::Distribution(bins) => self.push_bins(bucket, counter, &bins),
            }
        }
    }

    fn push_samples(&mut self, precision: Precision, counter: &CounterName, samples: &[Sample]) {
        self.dumped.samples += samples.len() as u64;
        for samples in samples.chunks(MAX_LINE_SAMPLES) {
            self.push(Entry::samples(precision, counter, samples));
        }
    }

    fn push_bins(&mut self, bucket: Bucket, counter: &CounterName, bins: &[(Bin, u64)]) {
        let bins: Vec<_> =
            bins.iter().copied().filter(|(_, count)| (1..=MAX_COUNT).contains(count)).collect();
        for bins in bins.chunks(MAX_CELL_BINS) {
            self.dumped.distributions += 1;
            self.push(Entry::bins(bucket, counter, bins));
        }
    }

    fn report(&mut self, unreadable: &Unreadable) {
        if self.reported.contains(&unreadable.key) {
            return;
        }
        self.dumped.unreadable += 1;
        if self.reported.len() < MAX_REPORTED {
            self.reported.insert(unreadable.key.clone());
            self.push(Entry::unreadable(unreadable));
        }
    }

    fn push(&mut self, entry: Entry<'_>) {
        self.lines.push(|line| entry.text(line));
    }
}

/// Lists the counters that have samples or a lifetime, ordered by name.
async fn list(store: &dyn Store, reach: &Grid) -> Result<(BTreeSet<CounterName>, Vec<Unreadable>), Error> {
    let (mut names, mut unreadable) = (BTreeSet::new(), Vec::new());
    for retention in reach.counts.iter() {
        let mut from = String::new();
        loop {
            let precisions = &[retention.precision];
            let query =
                KnownQuery { precisions, from: &from, limit: COUNTERS_PER_PAGE, since: Timestamp::MIN };
            let mut page = store.known(query).await?;
            unreadable.append(&mut page.unreadable);
            page.counters.sort_unstable();
            // If there are multiple shards, there may be gaps in the names beyond the limit.
            page.counters.truncate(COUNTERS_PER_PAGE);
            // Names can't contain control characters, so this is the next possible text.
            let last = page.counters.last().map(|(last, _)| format!("{last}\0"));
            let is_full = page.counters.len() == COUNTERS_PER_PAGE;
            names.extend(page.counters.into_iter().map(|(name, _)| name));
            match last {
                Some(last) if is_full => from = last,
                _ => break,
            }
        }
    }
    if store.info().sites.len() > 1 {
        let reason = "lifetimes of sites are not listed: dump each site";
        unreadable.push(Unreadable::new("sites", reason).with_extent(Extent::Part));
    }
    for shard in store.info().shards.iter() {
        let mut cursor = None;
        loop {
            let page = store.counted(shard, cursor).await?;
            names.extend(page.counters);
            unreadable.extend(page.unreadable);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok((names, unreadable))
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dump").field("id", &self.id).field("dumped", &self.dumped).finish_non_exhaustive()
    }
}
