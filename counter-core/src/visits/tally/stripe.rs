//! The part of the tally that a single thread adds to, without locks or atomic read-modify-write
//! instructions.
//!
//! We can't reset a count, because the thread might be adding to it. Instead, folding remembers how much it
//! has already taken, and the difference is new. A counter has two counts, so that a count belongs to a
//! single bucket: the thread adds to the count of the current bucket, and switches to the other count if a
//! new bucket starts. Hits in any other bucket are appended to a list.

mod counts;
mod requests;

use std::sync::OnceLock;

use counts::{Count, CountSnapshot, Counts, PART_COUNTERS, SIDES};
use requests::REQUEST_KINDS;

use super::bins::{BinKey, BinSlot, BinTable, ThreadBins};
use super::presence::Minute;
use super::registry::OTHER;
use super::single_writer::SingleWriter;
use super::visitors::{Recent, Ring};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::time::{Precisions, Timestamp};
use crate::visits::pending::VIEW_FLAG;

/// The counts of a thread. Stripes do not share cache lines, so that threads can't slow each other down.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Stripe {
    /// Time of the most recent hit, followed by the buckets of this time. Consecutive hits almost always
    /// share these, and computing them takes a division, which costs as much as the rest of recording a hit.
    at: SingleWriter,
    start: SingleWriter,
    visitors_start: SingleWriter,
    /// Number of the visitor bucket since 1970.
    visitors_number: SingleWriter,
    /// The current minute.
    minute: SingleWriter,
    /// The [stamp](Recent::stamp) of visitors.
    stamp: SingleWriter,
    /// The side of the slots that the thread adds to. No other thread reads this.
    side: AtomicUsize,
    /// The total counter; invalid until the first page hit.
    everything: SingleWriter,
    /// Requests by kind.
    requests: [SingleWriter; REQUEST_KINDS],
    counts: Counts,
    /// The views among the counts, if there were any.
    views: OnceLock<Counts>,
    counters: usize,
    /// Visitors of hits, on the way to the registers of their buckets.
    pub(crate) visitors: Ring,
    /// Bins in the current bucket of distributions.
    pub(crate) bins: ThreadBins,
    rest: Mutex<Rest>,
}

/// An instant, and the starts of the buckets that contain it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets {
    pub(crate) at: Timestamp,
    pub(crate) start: Timestamp,
    pub(crate) visitors: Timestamp,
    /// Number of the visitor bucket since 1970.
    pub(crate) visitors_number: u64,
    /// The minute, or [`Minute::NONE`] if it is not the current one.
    pub(crate) minute: Minute,
}

/// The locked part of a stripe. The thread only needs this lock if a bucket starts, for a hit in a different
/// bucket, or for a new bin.
#[derive(Debug)]
struct Rest {
    /// Bucket starts of both sides.
    starts: [Timestamp; SIDES],
    /// The side that the thread adds to.
    side: usize,
    /// True if all counts of the other side are folded.
    is_folded: bool,
    /// The folded part of the counts.
    folded: Folded,
    folded_views: Folded,
    /// Cells that no longer change.
    closed: Vec<ClosedCell>,
    /// Number of hits that were appended to the list, because they are not in the current bucket.
    listed: u64,
    /// Number of listed hits on `(other)`.
    listed_other: u64,
    /// Number of hits taken by folding.
    taken: u64,
    /// Bins that are not in the lock-free table of the thread.
    bins: BinTable,
}

/// Folded counts, by counter number.
type Folded = Vec<[CountSnapshot; SIDES]>;

/// A count that no longer changes, to be moved to the backlog by folding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosedCell {
    pub(crate) counter: u32,
    pub(crate) start: Timestamp,
    pub(crate) count: u64,
}

/// If a stripe has this number of closed cells, the thread will fold them. This should only be reached if the
/// flusher is not running, or if hits are out of order.
pub(crate) const MAX_CLOSED_CELLS: usize = 4096;

/// The hits of a stripe, by weight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StripeHits {
    pub(crate) recorded: u64,
    pub(crate) pending: u64,
    pub(crate) overflow: u64,
    /// Number of pending cells, including bins.
    pub(crate) cells: usize,
}

impl Stripe {
    /// Creates a stripe for at most `counters` counters.
    pub(crate) fn new(counters: usize) -> Self {
        Self {
            // Not a valid instant.
            at: SingleWriter::new(u64::MAX),
            start: SingleWriter::default(),
            visitors_start: SingleWriter::default(),
            visitors_number: SingleWriter::default(),
            minute: SingleWriter::default(),
            stamp: SingleWriter::default(),
            side: AtomicUsize::new(0),
            everything: SingleWriter::new(u64::MAX),
            requests: Default::default(),
            counts: Counts::new(counters),
            views: OnceLock::new(),
            counters,
            visitors: Ring::default(),
            bins: ThreadBins::new(),
            rest: Mutex::new(Rest {
                starts: [Timestamp::MIN; SIDES],
                side: 0,
                is_folded: true,
                folded: Folded::new(),
                folded_views: Folded::new(),
                closed: Vec::new(),
                listed: 0,
                listed_other: 0,
                taken: 0,
                bins: BinTable::default(),
            }),
        }
    }

    /// Returns `true` if the stripe is at the buckets of this instant.
    #[inline]
    pub(crate) fn is_at(&self, at: Timestamp) -> bool {
        self.at.get() == at.as_unix()
    }

    /// Returns the time of the most recent hit.
    pub(crate) fn at(&self) -> Timestamp {
        Timestamp::from_unix(self.at.get())
    }

    /// Returns the start of the current bucket.
    pub(crate) fn start(&self) -> Timestamp {
        Timestamp::from_unix(self.start.get())
    }

    /// Returns the start of the current visitor bucket.
    pub(crate) fn visitors_start(&self) -> Timestamp {
        Timestamp::from_unix(self.visitors_start.get())
    }

    /// Returns the number of the current visitor bucket.
    #[inline]
    pub(crate) fn visitors_number(&self) -> u64 {
        self.visitors_number.get()
    }

    /// Returns the current minute.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "set from 32 bits")]
    pub(crate) fn minute(&self) -> Minute {
        Minute::from_bits(self.minute.get() as u32)
    }

    /// Returns the [stamp](Recent::stamp) of visitors.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.get()
    }

    /// Switches to the buckets of an instant. Returns `true` if the caller should [`take`](Self::take) the
    /// cells. Only counters below `counters` can have hits.
    pub(crate) fn switch_to(&self, to: Buckets, counters: u32) -> bool {
        let mut rest = self.rest();
        if rest.starts[rest.side] != to.start {
            let other = 1 - rest.side;
            if !rest.is_folded {
                self.fold_side(&mut rest, other, counters);
            }
            rest.starts[other] = to.start;
            (rest.side, rest.is_folded) = (other, false);
            self.side.store(other, Ordering::Relaxed);
        }
        self.start.set(to.start.as_unix());
        self.visitors_start.set(to.visitors.as_unix());
        self.visitors_number.set(to.visitors_number);
        self.minute.set(to.minute.bits().into());
        self.stamp.set(Recent::stamp(Minute::of(to.at).number(), to.visitors_number));
        self.at.set(to.at.as_unix());
        rest.is_full()
    }

    /// Adds hits in the [current](Self::is_at) bucket to a counter.
    #[inline]
    pub(crate) fn add(&self, counter: u32, weight: u64) {
        let side = self.side.load(Ordering::Relaxed) % SIDES;
        self.counts.slot(counter).0[side].direct.add(weight);
    }

    /// Sets the total counter. This must be called only once, before the thread adds the first page hit.
    #[cold]
    pub(crate) fn set_everything(&self, counter: u32) {
        let _rest = self.rest();
        self.everything.set(counter.into());
    }

    /// Returns the total counter; meaningless before the first page hit.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "either a counter or meaningless")]
    pub(crate) fn everything(&self) -> u32 {
        self.everything.get() as u32
    }

    /// Returns whether this is the total counter.
    #[inline]
    pub(crate) fn is_everything(&self, counter: u32) -> bool {
        self.everything.get() == u64::from(counter)
    }

    /// Adds hits in the [current](Self::is_at) bucket to a page counter, and also to the total counter.
    #[inline(always)]
    pub(crate) fn add_page(&self, counter: u32, weight: u64) {
        let side = self.side.load(Ordering::Relaxed) % SIDES;
        self.counts.slot(counter).0[side].of_page.add(weight);
    }

    /// Adds views in the [current](Self::is_at) bucket to a page counter, and also to the total counter.
    // Not inlined, because most layers do not count views.
    #[inline(never)]
    pub(crate) fn add_page_views(&self, counter: u32, weight: u64) {
        self.views_of(counter).of_page.add(weight);
    }

    /// Adds views in the [current](Self::is_at) bucket to a counter.
    pub(crate) fn add_views(&self, counter: u32, weight: u64) {
        self.views_of(counter).direct.add(weight);
    }

    #[inline]
    fn views_of(&self, counter: u32) -> &Count {
        let side = self.side.load(Ordering::Relaxed) % SIDES;
        let views = self.views.get().unwrap_or_else(|| self.new_views());
        &views.slot(counter).0[side]
    }

    #[cold]
    fn new_views(&self) -> &Counts {
        self.views.get_or_init(|| Counts::new(self.counters))
    }

    /// Adds hits in any bucket. Returns `true` if the caller should [`take`](Self::take) the cells.
    pub(crate) fn list(&self, counter: u32, start: Timestamp, count: u64) -> bool {
        let mut rest = self.rest();
        rest.closed.push(ClosedCell { counter, start, count });
        rest.listed += count;
        if counter == OTHER {
            rest.listed_other += count;
        }
        rest.is_full()
    }

    /// Adds one to the bins at any instant. Returns `true` if the caller should [take](Self::take_bins) them.
    pub(crate) fn add_bins(
        &self,
        of: BinKey,
        at: Timestamp,
        now: Timestamp,
        distributions: &Precisions,
    ) -> bool {
        let rest = &mut *self.rest();
        if !self.bins.is_at(at) {
            let [start, current] = [at, now].map(|at| distributions.base().bucket(at).start);
            if start != current {
                rest.bins.add(BinSlot { of, start, count: 1 });
                return rest.bins.is_full();
            }
            self.bins.switch_to(at, start, &mut rest.bins);
        }
        self.bins.add_new(of, &mut rest.bins);
        rest.bins.is_full()
    }

    /// Moves all bins to a list.
    pub(crate) fn take_bins(&self, bins: &mut Vec<BinSlot>) {
        let mut rest = self.rest();
        rest.bins.take(bins);
        self.bins.take(bins);
    }

    /// Returns the hits of this thread on the counters below this number.
    pub(crate) fn hits(&self, counters: u32) -> StripeHits {
        let rest = self.rest();
        let mut hits = StripeHits {
            recorded: rest.listed,
            overflow: rest.listed_other,
            cells: rest.closed.len() + rest.bins.len() + self.bins.len(),
            ..StripeHits::default()
        };
        hits.add(&self.counts, counters, &rest.folded, OTHER);
        if let Some(views) = self.views.get() {
            hits.add(views, counters, &rest.folded_views, VIEW_FLAG);
        }
        hits.pending = hits.recorded - rest.taken;
        hits
    }

    /// Moves all cells to an empty list. `counters` returns the number of counters. This is called while we
    /// hold the lock, so that the thread can't switch to a new bucket. Otherwise, it might switch away from
    /// the first hits of a new counter, and these would never be found.
    pub(crate) fn take(&self, cells: &mut Vec<ClosedCell>, counters: impl FnOnce() -> u32) {
        let rest = &mut *self.rest();
        let counters = counters();
        for side in 0..SIDES {
            if side == rest.side || !rest.is_folded {
                self.fold_side(rest, side, counters);
            }
        }
        rest.is_folded = true;
        std::mem::swap(&mut rest.closed, cells);
        rest.taken += cells.iter().map(|cell| cell.count).sum::<u64>();
    }

    /// Appends the new counts of a side to the closed cells.
    fn fold_side(&self, rest: &mut Rest, side: usize, counters: u32) {
        let Rest { starts, closed, folded, folded_views, .. } = rest;
        let (start, everything) = (starts[side], self.everything());
        // A thread adds the hit before the view, so we need to fold views first. Otherwise, we could fold a view before the
        // hit.
        if let Some(views) = self.views.get() {
            fold_side(side, views, counters, folded_views, everything, |counter, count| {
                closed.push(ClosedCell { counter: counter | VIEW_FLAG, start, count });
            });
        }
        fold_side(side, &self.counts, counters, folded, everything, |counter, count| {
            closed.push(ClosedCell { counter, start, count });
        });
    }

    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().expect("the lock is never poisoned")
    }
}

impl StripeHits {
    /// Adds the counts of the counters below `counters`; those of `overflow` also count as overflow.
    fn add(&mut self, counts: &Counts, counters: u32, folded: &Folded, overflow: u32) {
        let mut has_pages = false;
        for (counter, slot) in counts.of(counters) {
            let folded = folded.get(counter as usize).copied().unwrap_or_default();
            for (count, folded) in slot.0.iter().zip(folded) {
                let CountSnapshot { direct, of_page } = count.get();
                self.recorded += direct + 2 * of_page;
                self.cells += usize::from(direct > folded.direct || of_page > folded.of_page);
                has_pages |= of_page > folded.of_page;
                if counter == overflow {
                    self.overflow += direct;
                }
            }
        }
        self.cells += usize::from(has_pages);
    }
}

impl Rest {
    const fn is_full(&self) -> bool {
        self.closed.len() >= MAX_CLOSED_CELLS
    }
}

/// Calls `push` with the counters that have new counts on this side.
fn fold_side(
    side: usize,
    counts: &Counts,
    counters: u32,
    all: &mut Folded,
    everything: u32,
    mut push: impl FnMut(u32, u64),
) {
    let mut of_pages = 0;
    for (counter, slot) in counts.of(counters) {
        let index = counter as usize;
        if index >= all.len() {
            all.resize(index + PART_COUNTERS, Default::default());
        }
        let count = slot.0[side].get();
        let folded = std::mem::replace(&mut all[index][side], count);
        let of_page = count.of_page - folded.of_page;
        of_pages += of_page;
        let new = count.direct - folded.direct + of_page;
        if new > 0 {
            push(counter, new);
        }
    }
    if of_pages > 0 {
        push(everything, of_pages);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const ALL: u32 = u32::MAX;
    const EVERYTHING: u32 = 7;

    fn buckets(second: u64) -> Buckets {
        let at = Timestamp::from_unix(second);
        Buckets { at, start: at, visitors: at, visitors_number: second, minute: Minute::NONE }
    }

    /// Sums up the cells of a stripe while other threads may add to it.
    fn take(stripe: &Stripe, sums: &mut BTreeMap<(u32, Timestamp), u64>) {
        let mut cells = Vec::new();
        stripe.take(&mut cells, || ALL);
        for ClosedCell { counter, start, count } in cells {
            *sums.entry((counter, start)).or_insert(0) += count;
        }
    }

    #[test]
    fn hits_are_taken_exactly_once_during_concurrent_adds() {
        let (stripe, mut sums) = (Stripe::new(6000), BTreeMap::new());
        let number = |n: u64| u32::try_from(n % 5500).expect("small");
        let is_page = |n: u64| n % 5 < 2 && number(n) != OTHER;
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                stripe.set_everything(EVERYTHING);
                for n in 0..400_000_u64 {
                    let second = n / 3000;
                    if n % 997 == 0 {
                        stripe.list(number(n), Timestamp::from_unix(second / 2), 2);
                        continue;
                    }
                    if !stripe.is_at(Timestamp::from_unix(second)) {
                        stripe.switch_to(buckets(second), ALL);
                    }
                    if is_page(n) {
                        stripe.add_page(number(n), 1 + n % 3);
                    } else {
                        stripe.add(number(n), 1 + n % 3);
                    }
                }
            });
            while !writer.is_finished() {
                let before = stripe.hits(ALL);
                take(&stripe, &mut sums);
                assert!(before.recorded - before.pending <= sums.values().sum::<u64>());
            }
        });
        take(&stripe, &mut sums);
        let mut expected = BTreeMap::new();
        for n in 0..400_000_u64 {
            let second = n / 3000;
            let (second, count) = if n % 997 == 0 { (second / 2, 2) } else { (second, 1 + n % 3) };
            let at = Timestamp::from_unix(second);
            *expected.entry((number(n), at)).or_insert(0) += count;
            if is_page(n) && n % 997 > 0 {
                *expected.entry((EVERYTHING, at)).or_insert(0) += count;
            }
        }
        assert_eq!(sums, expected);
        let StripeHits { recorded, pending, overflow, cells } = stripe.hits(ALL);
        let other: u64 =
            expected.iter().filter(|((number, _), _)| *number == OTHER).map(|(_, count)| count).sum();
        assert_eq!((recorded, pending, cells), (expected.values().sum::<u64>(), 0, 0));
        assert_eq!(overflow, other);
    }

    #[test]
    fn a_stripe_reports_when_it_is_full() {
        let (stripe, mut sums) = (Stripe::new(200), BTreeMap::new());
        for second in 0..1000 {
            if stripe.switch_to(buckets(second), ALL) {
                take(&stripe, &mut sums);
            }
            (0..100).for_each(|counter| stripe.add(counter, 1));
            assert!(stripe.hits(ALL).cells <= MAX_CLOSED_CELLS + 300);
        }
        take(&stripe, &mut sums);
        assert_eq!((sums.len(), sums.values().sum::<u64>()), (100_000, 100_000));
    }

    #[test]
    fn repeated_bucket_switches_without_folding_keep_all_hits() {
        let (stripe, mut sums) = (Stripe::new(10), BTreeMap::new());
        for second in [5, 6, 7, 5, 5, 9, 7] {
            stripe.switch_to(buckets(second), ALL);
            stripe.add(3, 1);
        }
        assert_eq!((stripe.hits(ALL).pending, stripe.hits(ALL).cells), (7, 7 - 1));
        take(&stripe, &mut sums);
        let of = |(_, second): &(u32, Timestamp)| second.as_unix();
        assert_eq!(
            sums.iter().map(|(key, count)| (of(key), *count)).collect::<Vec<_>>(),
            [(5, 3), (6, 1), (7, 2), (9, 1)]
        );
    }
}
