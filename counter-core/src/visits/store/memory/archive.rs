use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::{Bins, MemoryVisits, State, Visitors};
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::writer::WriterId;
use crate::sketch::Sketch;
use crate::time::{Bucket, Precision, Timestamp};
use crate::visits::store::archive_store::{ArchiveStore, Page, Progress, Values};

/// The state of an archive, in addition to its values.
#[derive(Debug, Default)]
pub(crate) struct Archived {
    holder: Option<(WriterId, Timestamp)>,
    progress: HashMap<(Values, Precision), Progress>,
    forgotten: HashMap<CounterName, Timestamp>,
}

/// How long a page can be in flight, in seconds.
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
            let (now, lease) = (Timestamp::now(), &mut self.retained().archived.holder);
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
            self.retained().archived.holder.take_if(|(other, _)| *other == holder);
            Ok(())
        })
    }

    fn time(&self) -> StoreFuture<'_, Timestamp> {
        Box::pin(async { Ok(Timestamp::now()) })
    }

    fn progress(&self, values: Values, precision: Precision) -> StoreFuture<'_, Option<Progress>> {
        Box::pin(async move { Ok(self.retained().archived.progress.get(&(values, precision)).copied()) })
    }

    fn advance(&self, values: Values, precision: Precision, progress: Progress) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.retained().archived.progress.insert((values, precision), progress);
            Ok(())
        })
    }

    fn put<'a>(&'a self, page: &'a Page) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let retained = &mut *self.retained();
            put_counts(retained, page);
            put_visitors(retained, page);
            put_bins(retained, page);
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

fn put_counts(retained: &mut State, page: &Page) {
    for (index, &lifetime) in page.lifetimes.iter().enumerate() {
        if let Some(counter) = counter(&retained.archived, page, index) {
            let total = retained.totals.entry(counter.clone()).or_default();
            *total = if page.replaces { lifetime } else { lifetime.max(*total) };
        }
    }
    for (&start, counts) in &page.counts {
        for &(index, count) in counts {
            let Some(counter) = counter(&retained.archived, page, index) else { continue };
            let buckets = retained.counts.entry((page.retained.precision, counter.clone())).or_default();
            let retained = buckets.entry(start).or_default();
            *retained = if page.replaces { count } else { count.max(*retained) };
            if *retained == 0 {
                buckets.remove(&start);
            }
        }
    }
}

fn put_visitors(retained: &mut State, page: &Page) {
    for (&start, sketches) in &page.visitors {
        let expiry = page.retained.expiry(start);
        for (index, sketch) in sketches {
            let Some(counter) = counter(&retained.archived, page, *index) else { continue };
            let key = (counter.clone(), Bucket { precision: page.retained.precision, start });
            let visitors = retained.visitors.entry(key);
            let visitors = visitors.or_insert_with(|| Visitors { expiry, sketch: Sketch::new() });
            visitors.expiry = expiry.max(visitors.expiry);
            if page.replaces {
                visitors.sketch = Sketch::new();
            }
            visitors.sketch.merge(sketch);
        }
    }
}

fn put_bins(retained: &mut State, page: &Page) {
    for (&start, counters) in &page.bins {
        let expiry = page.retained.expiry(start);
        for (index, bins) in counters {
            let Some(counter) = counter(&retained.archived, page, *index) else { continue };
            let key = (counter.clone(), page.retained.precision, start);
            if page.replaces && bins.is_empty() {
                retained.bins.remove(&key);
                continue;
            }
            let none = || Bins { expiry, counts: BTreeMap::new() };
            let retained = retained.bins.entry(key).or_insert_with(none);
            retained.expiry = expiry.max(retained.expiry);
            if page.replaces {
                retained.counts.clear();
            }
            for (bin, count) in bins {
                let greater = retained.counts.entry(*bin).or_default();
                *greater = count.max(greater).to_owned();
            }
        }
    }
}
