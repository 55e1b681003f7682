//! The people of the last minutes.
//!
//! To find out how many people are using the site, the buckets of visitors are too long. With shorter buckets, we would have to
//! send a visitor of a page again in every minute. Therefore, we only keep a sketch per minute for the site. It is sent in
//! separate batches: if a batch is lost, this only affects the next few minutes, and never the hits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::Error;
use crate::family::name::CounterName;
use crate::family::writer::WriterId;
use crate::log::unwind::catch_panic;
use crate::sketch::{REGISTERS, Register, Sketch};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::time::{Grid, Precision, Precisions, Retention, Timestamp};
use crate::visits::store::{Adds, ApplyOutcome, Batch, Cell, Fence, FenceKind, Store, Value};

/// The people of the last minutes, to be [shared](Self::share) via the store.
#[derive(Debug)]
pub(crate) struct Presence {
    /// A slot per register. From the lowest bit: whether it was collected, the rank, and the [minute](Minute). Threads thus
    /// only have to raise it.
    slots: Slots,
    /// Slots that were replaced by those of a new minute before they were collected.
    replaced: Slots,
    /// People of earlier minutes, e.g. from a log.
    earlier: std::sync::Mutex<People>,
    sender: Mutex<Sender>,
}

/// The registers that the store does not have yet, and the position in the store, like that of a source.
#[derive(Debug)]
struct Sender {
    writer: WriterId,
    grid: Arc<Grid>,
    /// Position in the store.
    stored: u64,
    /// Position of the latest batch. It is never used again: an unacknowledged batch may have been applied.
    sent: u64,
    unsent: People,
    /// Everything taken from [`Presence::earlier`], to recognize people who are added again.
    taken: People,
    /// The time from which [`Presence::share_if_due`] sends the next batch.
    due: Instant,
}

type Slots = Box<[AtomicU32; SLOTS]>;

/// People by minute.
type People = BTreeMap<Minute, Sketch>;

/// A minute, as its number since 2020 in the bits of a slot. This fits until the year 2083.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Minute(u32);

/// Minimum time between two batches.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

/// How long people stay, in minutes.
pub(crate) const STAY: u64 = 5;

/// Number of minutes to retain. More than [`STAY`], because clocks differ.
const SAMPLES: u32 = 15;

/// Retention of the position in the store after the latest batch.
const LIFE: Duration = Duration::from_secs(3600);

const SLOTS: usize = if cfg!(counter_loom) { 1 } else { REGISTERS };

const COLLECTED: u32 = 1;
const RANK_BITS: u32 = 6;
const MINUTE: u32 = 1 << (RANK_BITS + 1);

/// The minute at the start of 2020.
const FIRST: u64 = 1_577_836_800 / 60;

impl Presence {
    pub(crate) fn new() -> Self {
        let minutes = Retention { precision: Precision::MINUTE, samples: SAMPLES.try_into().expect("not 0") };
        let visitors = Precisions::new([minutes]).expect("one precision is a set");
        let grid = Arc::new(Grid { visitors, ..Grid::default() });
        let (writer, unsent, due) = (WriterId::random(), People::new(), Instant::now());
        let sender = Sender { writer, grid, stored: 0, sent: 0, unsent, taken: People::new(), due };
        let slots = || {
            let slots: Box<[_]> = (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
            slots.try_into().expect("collected as many")
        };
        let (earlier, sender) = (std::sync::Mutex::default(), Mutex::new(sender));
        Self { slots: slots(), replaced: slots(), earlier, sender }
    }

    /// Adds the register of a person who is here in this minute.
    #[inline]
    pub(crate) fn see(&self, minute: Minute, register: Register) {
        let seen = minute.0 | u32::from(register.rank) << 1;
        if self.slot(register).load(Ordering::Relaxed) < seen {
            self.raise(seen, register);
        }
    }

    #[inline(never)]
    fn raise(&self, seen: u32, register: Register) {
        let before = self.slot(register).fetch_max(seen, Ordering::Relaxed);
        if before & COLLECTED == 0 && Minute::of_slot(before) < Minute::of_slot(seen) {
            self.replaced[usize::from(register.index) % SLOTS].fetch_max(before, Ordering::Relaxed);
        }
    }

    /// Adds the register of a person who was here at this instant, unless this is out of date.
    pub(crate) fn see_at(&self, at: Timestamp, register: Register) {
        let (seen, now) = (Minute::of(at), Minute::of(Timestamp::now()));
        if seen == now {
            self.see(seen, register);
        } else if seen.is_recent(now) {
            let mut earlier = self.earlier();
            earlier.entry(seen).or_default().raise(register);
            // In case nobody shares them.
            earlier.retain(|minute, _| minute.is_recent(now));
        }
    }

    /// Sends the people who are new since the previous call to the store, unless that was within the last [`INTERVAL`].
    pub(crate) async fn share_if_due(&self, store: &dyn Store) {
        if self.sender.try_lock().is_ok_and(|sender| sender.due <= Instant::now()) {
            self.share(store).await;
        }
    }

    /// Sends the people who are new since the previous call to the store. If this fails, the next call will retry. Returns
    /// `true` if the store has all of them, and `false` during another call.
    pub(crate) async fn share(&self, store: &dyn Store) -> bool {
        let Ok(mut sender) = self.sender.try_lock() else { return false };
        let Sender { unsent, taken, .. } = &mut *sender;
        self.collect(unsent, taken, Minute::of(Timestamp::now()));
        // A failure of the store is already reported by the flusher.
        drop(catch_panic(sender.send(store)).await);
        sender.due = Instant::now() + INTERVAL;
        sender.unsent.is_empty()
    }

    /// Adds the registers that were raised since the previous call, and removes people who have left.
    fn collect(&self, people: &mut People, taken: &mut People, now: Minute) {
        for (minute, earlier) in std::mem::take(&mut *self.earlier()) {
            let taken = taken.entry(minute).or_default();
            if !taken.includes(&earlier) {
                taken.merge(&earlier);
                people.entry(minute).or_default().merge(&earlier);
            }
        }
        // Replaced slots must be last: a thread may replace a slot in the meantime.
        for slots in [&self.slots, &self.replaced] {
            for (index, slot) in (0..).zip(&**slots) {
                let seen = slot.load(Ordering::Relaxed);
                let minute = Minute::of_slot(seen);
                // After a clock that was ahead, people would not be seen until it is this late.
                let next = if minute > now.plus(1) { 0 } else { seen | COLLECTED };
                // If a thread raises the register in the meantime, it is still to be collected.
                if next != seen
                    && slot.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
                    && let Some(register) = Minute::register(seen, index)
                {
                    people.entry(minute).or_default().raise(register);
                }
            }
        }
        people.retain(|minute, _| minute.is_recent(now));
        taken.retain(|minute, _| minute.is_recent(now));
    }

    #[inline]
    fn slot(&self, register: Register) -> &AtomicU32 {
        &self.slots[usize::from(register.index) % SLOTS]
    }

    fn earlier(&self) -> std::sync::MutexGuard<'_, People> {
        self.earlier.lock().expect("the lock is never poisoned")
    }
}

impl Minute {
    /// Out of date at any time.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the minute that contains an instant, or the first minute of 2020 if it is earlier.
    pub(crate) fn of(at: Timestamp) -> Self {
        let number = (at.as_unix() / 60).saturating_sub(FIRST);
        Self(u32::try_from(number).unwrap_or(u32::MAX).saturating_mul(MINUTE) & !(MINUTE - 1))
    }

    /// Returns the number of the minute since 2020.
    pub(crate) const fn number(self) -> u32 {
        self.0 / MINUTE
    }

    /// Returns the minute as a number with 32 bits.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the minute of these [bits](Self::bits).
    #[inline]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the minute of a slot.
    const fn of_slot(slot: u32) -> Self {
        Self(slot & !(MINUTE - 1))
    }

    /// Returns the register of a slot, unless it was already collected.
    #[allow(clippy::cast_possible_truncation, reason = "a rank has 6 bits")]
    fn register(slot: u32, index: u16) -> Option<Register> {
        let rank = ((slot % MINUTE) >> 1) as u8;
        (slot & COLLECTED == 0 && rank > 0).then_some(Register { index, rank })
    }

    /// Returns the start of the minute by the store clock, given the seconds by which this clock is ahead.
    fn start(self, ahead: i64) -> Timestamp {
        let minutes = i64::from(self.number()) - (ahead + 30).div_euclid(60);
        Timestamp::from_unix((u64::try_from(minutes).unwrap_or(0) + FIRST) * 60)
    }

    const fn plus(self, minutes: u32) -> Self {
        Self(self.0.saturating_add(minutes * MINUTE))
    }

    /// Returns `true` if people who were seen in this minute are here at `now`. A clock can be ahead by a minute.
    #[allow(clippy::cast_possible_truncation, reason = "a few minutes")]
    fn is_recent(self, now: Self) -> bool {
        self.plus(STAY as u32) >= now && self <= now.plus(1)
    }
}

impl Sender {
    async fn send(&mut self, store: &dyn Store) -> Result<(), Error> {
        let counter = CounterName::new(CounterName::NOW).expect("a valid name");
        let shard = store.info().shards.of(&counter);
        let ahead = store.info().clock_skew.unwrap_or(0);
        let cell = |(minute, people): (&Minute, &Sketch)| Cell {
            counter: counter.clone(),
            start: minute.start(ahead),
            finest: Precision::MINUTE,
            value: Value::Visitors(people.clone()),
        };
        let cells: Vec<_> = self.unsent.iter().map(cell).collect();
        for _ in 0..if cells.is_empty() { 0 } else { 2 } {
            self.sent += 1;
            let kind = FenceKind::Source { life: Some(LIFE) };
            let fence = Fence { writer: self.writer, kind, sequence: self.sent, after: self.stored };
            let empty = Batch::empty(shard, fence, &self.grid);
            match store.apply(&Batch { cells: cells.clone(), adds: Adds::Samples, ..empty }).await? {
                ApplyOutcome::Applied(_) => {
                    self.stored = self.sent;
                    self.unsent.clear();
                    break;
                }
                // An unacknowledged batch was applied, or the store has lost the position.
                ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found } => {
                    self.stored = found.sequence;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::MemoryStore;
    use crate::visits::store::Read;

    const AT: Timestamp = Timestamp::from_unix(1_790_000_000);

    const fn register(index: u16, rank: u8) -> Register {
        Register { index, rank }
    }

    fn minute(after: u64) -> Minute {
        Minute::of(AT.plus(60 * after))
    }

    fn collected(presence: &Presence, now: Minute) -> Vec<(Minute, Register)> {
        let mut people = People::new();
        presence.collect(&mut people, &mut People::new(), now);
        people.iter().flat_map(|(minute, sketch)| sketch.registers().map(|of| (*minute, of))).collect()
    }

    #[test]
    fn a_register_is_collected_once_per_rise_and_minute() {
        let presence = Presence::new();
        let [first, second, third] = [0, 1, 2].map(minute);
        presence.see(first, register(7, 3));
        presence.see(first, register(7, 2));
        presence.see(first, register(16_383, 51));
        assert_eq!(collected(&presence, first), [(first, register(7, 3)), (first, register(16_383, 51))]);
        presence.see(first, register(7, 3));
        assert_eq!(collected(&presence, first), []);
        presence.see(first, register(7, 4));
        // A new minute replaces a register that was not collected yet, but it is not lost.
        presence.see(second, register(7, 1));
        assert_eq!(collected(&presence, second), [(first, register(7, 4)), (second, register(7, 1))]);
        presence.see(third, register(7, 1));
        assert_eq!(collected(&presence, third), [(third, register(7, 1))]);
        let start = Timestamp::from_unix(AT.as_unix() / 60 * 60);
        assert_eq!(first.start(0), start);
        assert_eq!(
            [29, 30, -30, -31].map(|ahead| first.start(ahead)),
            [start, start.minus(60), start, start.plus(60)]
        );
    }

    #[test]
    fn people_of_the_past_or_of_a_clock_that_was_ahead_are_not_here() {
        let presence = Presence::new();
        presence.see(minute(0), register(7, 3));
        assert_eq!(collected(&presence, minute(STAY + 1)), []);
        presence.see(minute(1000), register(7, 3));
        assert_eq!(collected(&presence, minute(0)), []);
        presence.see(minute(0), register(7, 1));
        assert_eq!(collected(&presence, minute(0)), [(minute(0), register(7, 1))]);
        let now = Timestamp::now();
        for at in [now.minus(60 * (STAY + 1)), now.minus(60), now.plus(3600)] {
            presence.see_at(at, register(3, 1));
        }
        let before = Minute::of(now.minus(60));
        let (mut people, mut taken) = (People::new(), People::new());
        presence.collect(&mut people, &mut taken, Minute::of(now));
        assert_eq!(people.keys().collect::<Vec<_>>(), [&before]);
        // The same people again, e.g. in a log.
        people.clear();
        presence.see_at(now.minus(60), register(3, 1));
        presence.collect(&mut people, &mut taken, Minute::of(now));
        assert!(people.is_empty());
    }

    #[tokio::test]
    async fn people_are_sent_again_if_a_batch_may_have_been_applied() {
        let (presence, store) = (Presence::new(), MemoryStore::new());
        let now = Minute::of(Timestamp::now());
        let count = async || {
            let counter = [CounterName::new(CounterName::NOW).expect("a name")];
            let unions = [vec![Precision::MINUTE.bucket(now.start(0))]];
            store.visitor_counts(&counter, &unions).await.expect("a store")[0][0].clone().expect("readable")
        };
        presence.see(now, register(1, 1));
        presence.share(&store).await;
        assert_eq!(count().await, 1);
        presence.see(now, register(2, 1));
        presence.share(&store).await;
        assert_eq!(count().await, 2);
        // As if the first batch had been applied without an acknowledgement.
        presence.sender.lock().await.stored = 0;
        presence.see(now, register(3, 1));
        presence.share(&store).await;
        assert_eq!(count().await, 3);
        // As if the store had lost its data.
        presence.sender.lock().await.stored = 1000;
        presence.see(now, register(4, 1));
        presence.share(&store).await;
        assert_eq!(count().await, 4);
    }
}
