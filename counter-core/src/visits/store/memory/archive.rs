use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::{Bins, MemoryVisits, State, Visitors};
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::writer::WriterId;
use crate::sketch::Sketch;
use crate::time::{Bucket, Kind, Precision, Timestamp};
use crate::visits::store::archive_store::{ArchiveStore, Page, Progress};

/// The lease, the copy progress and the forgotten counters of a store that is used as an archive.
#[derive(Debug, Default)]
pub(crate) struct Archived {
    holder: Option<(WriterId, Timestamp)>,
    progress: HashMap<(Kind, Precision), Progress>,
    forgotten: HashMap<CounterName, Timestamp>,
}

/// How long to remember a forgotten counter, in seconds. A page can be in flight for up to this time.
const FORGOTTEN_TTL: u64 = 86_400;

impl Archived {
    pub(crate) fn forget(&mut self, counter: &CounterName) {
        let now = Timestamp::now();
        self.forgotten.retain(|_, at| at.plus(FORGOTTEN_TTL) > now);
        self.forgotten.insert(counter.clone(), now);
    }
}

impl ArchiveStore for MemoryVisits {
    fn lease(&self, holder: WriterId, time: Duration) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let (now, lease) = (Timestamp::now(), &mut self.state().archived.holder);
            let end = now.plus(time.as_secs());
            let is_held =
                lease.is_none_or(|(other, expiry)| other == holder || expiry <= now || expiry > end);
            if is_held {
                *lease = Some((holder, end));
            }
            Ok(is_held)
        })
    }

    fn release(&self, holder: WriterId) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.state().archived.holder.take_if(|(other, _)| *other == holder);
            Ok(())
        })
    }

    fn time(&self) -> StoreFuture<'_, Timestamp> {
        Box::pin(async { Ok(Timestamp::now()) })
    }

    fn progress(&self, values: Kind, precision: Precision) -> StoreFuture<'_, Option<Progress>> {
        Box::pin(async move { Ok(self.state().archived.progress.get(&(values, precision)).copied()) })
    }

    fn advance(&self, values: Kind, precision: Precision, progress: Progress) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.state().archived.progress.insert((values, precision), progress);
            Ok(())
        })
    }

    fn put<'a>(&'a self, page: &'a Page) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let state = &mut *self.state();
            put_counts(state, page);
            put_visitors(state, page);
            put_bins(state, page);
            Ok(())
        })
    }
}

/// Returns the counter at an index of a page, unless it was forgotten after the page was read.
fn counter<'a>(archived: &Archived, page: &'a Page, index: usize) -> Option<&'a CounterName> {
    let is_retained =
        |counter: &&CounterName| archived.forgotten.get(*counter).is_none_or(|at| *at < page.read);
    page.counters.get(index).filter(is_retained)
}

fn put_counts(state: &mut State, page: &Page) {
    for (index, &lifetime) in page.lifetimes.iter().enumerate() {
        if let Some(counter) = counter(&state.archived, page, index) {
            let total = state.totals.entry(counter.clone()).or_default();
            *total = if page.replaces { lifetime } else { lifetime.max(*total) };
        }
    }
    for (&start, counts) in &page.counts {
        for &(index, count) in counts {
            let Some(counter) = counter(&state.archived, page, index) else { continue };
            let buckets = state.counts.entry((page.retention.precision, counter.clone())).or_default();
            let state = buckets.entry(start).or_default();
            *state = if page.replaces { count } else { count.max(*state) };
            if *state == 0 {
                buckets.remove(&start);
            }
        }
    }
}

fn put_visitors(state: &mut State, page: &Page) {
    for (&start, sketches) in &page.visitors {
        let expiry = page.retention.expiry(start);
        for (index, sketch) in sketches {
            let Some(counter) = counter(&state.archived, page, *index) else { continue };
            let key = (counter.clone(), Bucket { precision: page.retention.precision, start });
            let visitors = state.visitors.entry(key);
            let visitors = visitors.or_insert_with(|| Visitors { expiry, sketch: Sketch::new() });
            visitors.expiry = expiry.max(visitors.expiry);
            if page.replaces {
                visitors.sketch = Sketch::new();
            }
            visitors.sketch.merge(sketch);
        }
    }
}

fn put_bins(state: &mut State, page: &Page) {
    for (&start, counters) in &page.bins {
        let expiry = page.retention.expiry(start);
        for (index, bins) in counters {
            let Some(counter) = counter(&state.archived, page, *index) else { continue };
            let key = (counter.clone(), page.retention.precision, start);
            if page.replaces && bins.is_empty() {
                state.bins.remove(&key);
                continue;
            }
            let none = || Bins { expiry, counts: BTreeMap::new() };
            let state = state.bins.entry(key).or_insert_with(none);
            state.expiry = expiry.max(state.expiry);
            if page.replaces {
                state.counts.clear();
            }
            for (bin, count) in bins {
                let greater = state.counts.entry(*bin).or_default();
                *greater = count.max(greater).to_owned();
            }
        }
    }
}
