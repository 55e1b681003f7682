use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::{Bins, MemoryVisits, Visitors};
use crate::family::future::Answer;
use crate::family::writer::WriterId;
use crate::sketch::Sketch;
use crate::time::Bucket;
use crate::visits::archive::{ArchiveStore, Page, Progress, Values};
use crate::{CounterName, Precision, Timestamp};

/// Memory of an archive beside the values.
#[derive(Debug, Default)]
pub(super) struct Archived {
    holder: Option<(WriterId, Timestamp)>,
    progress: HashMap<(Values, Precision), Progress>,
    forgotten: HashMap<CounterName, Timestamp>,
}

/// The time for which a page may be on its way, in seconds.
const REMEMBERED: u64 = 86_400;

impl Archived {
    pub(super) fn forget(&mut self, counter: &CounterName) {
        let now = Timestamp::now();
        self.forgotten.retain(|_, at| at.plus(REMEMBERED) > now);
        self.forgotten.insert(counter.clone(), now);
    }
}

impl ArchiveStore for MemoryVisits {
    fn lease(&self, holder: WriterId, time: Duration) -> Answer<'_, bool> {
        Box::pin(async move {
            let (now, lease) = (Timestamp::now(), &mut self.kept().archived.holder);
            let end = now.plus(time.as_secs());
            let is_held =
                lease.is_none_or(|(other, expiry)| other == holder || expiry <= now || expiry > end);
            if is_held {
                *lease = Some((holder, end));
            }
            Ok(is_held)
        })
    }

    fn release(&self, holder: WriterId) -> Answer<'_, ()> {
        Box::pin(async move {
            self.kept().archived.holder.take_if(|(other, _)| *other == holder);
            Ok(())
        })
    }

    fn time(&self) -> Answer<'_, Timestamp> {
        Box::pin(async { Ok(Timestamp::now()) })
    }

    fn progress(&self, values: Values, precision: Precision) -> Answer<'_, Option<Progress>> {
        Box::pin(async move { Ok(self.kept().archived.progress.get(&(values, precision)).copied()) })
    }

    fn advance(&self, values: Values, precision: Precision, progress: Progress) -> Answer<'_, ()> {
        Box::pin(async move {
            self.kept().archived.progress.insert((values, precision), progress);
            Ok(())
        })
    }

    fn put<'a>(&'a self, page: &'a Page) -> Answer<'a, ()> {
        Box::pin(async move {
            let kept = &mut *self.kept();
            let forgotten = &kept.archived.forgotten;
            let is_kept = |counter: &&CounterName| forgotten.get(*counter).is_none_or(|at| *at < page.read);
            let counter = |index: usize| page.counters.get(index).filter(is_kept);
            for (index, &lifetime) in page.lifetimes.iter().enumerate() {
                if let Some(counter) = counter(index) {
                    let total = kept.totals.entry(counter.clone()).or_default();
                    *total = if page.replaces { lifetime } else { lifetime.max(*total) };
                }
            }
            let precision = page.kept.precision;
            for (&start, counts) in &page.counts {
                for &(index, count) in counts {
                    let Some(counter) = counter(index) else { continue };
                    let buckets = kept.counts.entry((precision, counter.clone())).or_default();
                    let kept = buckets.entry(start).or_default();
                    *kept = if page.replaces { count } else { count.max(*kept) };
                    if *kept == 0 {
                        buckets.remove(&start);
                    }
                }
            }
            for (&start, sketches) in &page.visitors {
                let expiry = page.kept.expiry(start);
                for (index, sketch) in sketches {
                    let Some(counter) = counter(*index) else { continue };
                    let place = (counter.clone(), Bucket { precision, start });
                    let visitors = kept.visitors.entry(place);
                    let visitors = visitors.or_insert_with(|| Visitors { expiry, sketch: Sketch::new() });
                    visitors.expiry = expiry.max(visitors.expiry);
                    if page.replaces {
                        visitors.sketch = Sketch::new();
                    }
                    visitors.sketch.merge(sketch);
                }
            }
            for (&start, counters) in &page.bins {
                let expiry = page.kept.expiry(start);
                for (index, bins) in counters {
                    let Some(counter) = counter(*index) else { continue };
                    let place = (counter.clone(), precision, start);
                    if page.replaces && bins.is_empty() {
                        kept.bins.remove(&place);
                        continue;
                    }
                    let none = || Bins { expiry, counts: BTreeMap::new() };
                    let kept = kept.bins.entry(place).or_insert_with(none);
                    kept.expiry = expiry.max(kept.expiry);
                    if page.replaces {
                        kept.counts.clear();
                    }
                    for (bin, count) in bins {
                        let greater = kept.counts.entry(*bin).or_default();
                        *greater = count.max(greater).to_owned();
                    }
                }
            }
            Ok(())
        })
    }
}
