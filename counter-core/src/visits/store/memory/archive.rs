use std::collections::HashMap;
use std::time::Duration;

use super::{Expiring, MemoryVisits, State};
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::writer::WriterId;
use crate::time::{Kind, Precision, Timestamp};
use crate::visits::store::archive_store::{ArchiveStore, Page, Progress};
use crate::visits::store::value::Value;

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

    fn progress(&self, kind: Kind, precision: Precision) -> StoreFuture<'_, Option<Progress>> {
        Box::pin(async move { Ok(self.state().archived.progress.get(&(kind, precision)).copied()) })
    }

    fn advance(&self, kind: Kind, precision: Precision, progress: Progress) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.state().archived.progress.insert((kind, precision), progress);
            Ok(())
        })
    }

    fn put<'a>(&'a self, page: &'a Page) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let state = &mut *self.state();
            match page.kind {
                Kind::Counts => put_counts(state, page),
                Kind::Visitors | Kind::Distributions => put_expiring(state, page),
            }
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
    for (&start, values) in &page.values {
        for (index, count) in values.iter().filter_map(|(index, value)| Some((*index, value.count()?))) {
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

/// Stores visitors and distributions.
fn put_expiring(state: &mut State, page: &Page) {
    let precision = page.retention.precision;
    for (&start, values) in &page.values {
        let expiry = page.retention.expiry(start);
        for (index, value) in values {
            let Some(counter) = counter(&state.archived, page, *index) else { continue };
            let key = (page.kind, counter.clone(), precision, start);
            if page.replaces && value.is_empty() {
                state.expiring.remove(&key);
                continue;
            }
            let none = || Expiring { expiry, value: Value::empty(page.kind) };
            let found = state.expiring.entry(key).or_insert_with(none);
            found.expiry = expiry.max(found.expiry);
            match page.replaces {
                true => found.value = value.clone(),
                false => found.value.merge(value.clone(), u64::max),
            }
        }
    }
}
