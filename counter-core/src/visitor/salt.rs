//! Salts for visitor hashes. Salts rotate with epochs.
//!
//! If addresses were always hashed using the same key, the result would effectively be a list of visitors and
//! access times. Therefore the key changes with the epoch, so that IDs can't be linked across epochs. All
//! instances that share a store need to agree on the salt, because otherwise a visitor would be counted by
//! multiple instances, but requests must not wait for this. To solve this, an epoch starts with a random salt
//! for this process, which the flusher then offers to the store. The first salt offered will be used by all
//! instances.
//!
//! The current salt is fetched at startup, and the salt for the next epoch is fetched from the middle of the
//! current epoch on, so instances can only disagree if the store is unavailable for half an epoch. In this
//! case, instances use their own salt until the shared salt is available. A visitor seen under both salts
//! will be counted at most twice in this epoch, for each disconnected instance.
//!
//! The salt is stored with the hashed data. If a secret is configured, visitors are hashed using a key
//! derived from both: an epoch can't be reconstructed from the secret if the salt has been deleted, and the
//! salt, which is visible to all readers of the store, is not sufficient to compute visitor IDs.

mod current;
mod recent;
#[cfg(all(test, counter_loom))]
mod models;
#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use current::Current;
use recent::RecentVisitors;

use super::id::{PreparedKey, VisitorId, VisitorKey, random};
use super::secret::Secret;
use crate::sketch::Register;
use crate::sync::Mutex;
use crate::time::{Bucket, LocalDays, Precision, Precisions, Timestamp};

/// A salt that maps visitor properties to a [`VisitorId`], shared by all instances that use the same store.
///
/// It is returned by [`Recorder::salt`](crate::Recorder::salt) or
/// [`Recorder::stable_salt`](crate::Recorder::stable_salt). Using it does not perform I/O: if the store has
/// not responded yet or is unavailable, a salt local to this process is used. Visitors seen under both the
/// local salt and the shared salt are counted at most twice in this epoch. A salt created from a
/// [`VisitorKey`] always uses this key, and does not need a store.
///
/// ```
/// use counter_core::visitor::{Salt, VisitorKey};
/// use counter_core::{Counters, MemoryStore};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let salt = counters.recorder().salt()?;
/// assert_eq!(salt.visitor(&[b"192.0.2.1"]), salt.visitor(&[b"192.0.2.1"]));
///
/// let key = VisitorKey::new([7; 16]);
/// assert_eq!(Salt::from(key).visitor(&[b"192.0.2.1"]), key.visitor(&[b"192.0.2.1"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Salt(Arc<Salts>);

/// An error returned if a visitor bucket would span multiple salt epochs: the visitor precision is coarser
/// than the epoch, or not aligned with it.
#[derive(Clone, PartialEq, Eq)]
pub struct SaltError {
    /// The visitor precision.
    pub precision: Precision,
    /// The salt epoch.
    pub epoch: Precision,
}

/// The salts of a process: rotating and stable.
#[derive(Clone, Debug)]
pub(crate) struct Salting {
    pub(crate) rotating: Arc<Salts>,
    pub(crate) stable: Arc<Salts>,
}

/// The salts for the current epoch and an adjacent epoch, which is either the next or the previous epoch.
pub(crate) struct Salts {
    epoch: Precision,
    /// The epochs, if they are days of a time zone. The width and the offset are then those of a usual day.
    days: Option<LocalDays>,
    /// A key derived from the secret. It is combined with the salt from the store.
    secret: Option<VisitorKey>,
    /// True if a handle has been created. Salts that are never used do not need to be shared.
    is_used: AtomicBool,
    current: Current,
    /// Registers of recent visitors, under any key.
    recent: RecentVisitors,
    /// The slots for even and odd epochs.
    slots: Mutex<[Option<Slot>; 2]>,
}

struct Slot {
    start: Timestamp,
    key: VisitorKey,
    /// The salt to offer to the store. `None` if the store has already responded.
    candidate: Option<[u8; 16]>,
}

/// A salt to offer to the store.
pub(crate) struct Offer {
    pub(crate) epoch: Bucket,
    pub(crate) candidate: [u8; 16],
    /// The end of the following epoch.
    pub(crate) expiry: Timestamp,
}

/// Maximum lead of a process clock over the store clock in seconds (25 hours). Hits beyond it are dropped.
const MAX_CLOCK_SKEW: u64 = 90_000;
const DAY: Precision = Precision::new(NonZeroU32::new(86_400).expect("a day is not 0"));

/// An epoch that lasts until the year 2106.
const STABLE_EPOCH: Precision = Precision::new(NonZeroU32::MAX);

impl Salt {
    /// Returns the current visitor ID for these parts. The boundaries between the parts are significant.
    #[inline(always)]
    #[must_use]
    pub fn visitor(&self, parts: &[&[u8]]) -> VisitorId {
        self.visitor_until(parts).0
    }

    /// Returns the current visitor ID for these parts, and the end of the epoch in which the ID is valid.
    ///
    /// In later epochs, this ID would count the same visitor a second time. If a hit might be recorded later
    /// than the call to this method, you should pass the timestamp to
    /// [`Recorder::request_until`](crate::Recorder::request_until).
    #[inline(always)]
    #[must_use]
    pub fn visitor_until(&self, parts: &[&[u8]]) -> (VisitorId, Timestamp) {
        let (key, end) = self.0.key(Timestamp::now());
        (key.visitor(parts), end)
    }

    /// Returns the register for a visitor identified by a single part of 24 bytes, and the end of the epoch
    /// like [`visitor_until`](Self::visitor_until).
    ///
    /// This is the register for the [visitor](Self::visitor), but it takes a quarter of the instructions if
    /// the visitor has been seen recently.
    #[inline(always)]
    #[must_use]
    pub fn register_until(&self, part: &[u8; 24]) -> (Register, Timestamp) {
        self.0.register(part, Timestamp::now())
    }
}

impl From<VisitorKey> for Salt {
    fn from(key: VisitorKey) -> Self {
        let salts = Salts::new(STABLE_EPOCH, None);
        salts.current.set(0..u64::MAX, key);
        Self(Arc::new(salts))
    }
}

impl Salting {
    pub(crate) fn new(epoch: Precision, days: Option<LocalDays>, secret: Option<&Secret>) -> Self {
        let salts = |epoch| Salts::new(epoch, secret.map(|secret| secret.key("salt")));
        Self { rotating: Arc::new(Salts { days, ..salts(epoch) }), stable: Arc::new(salts(STABLE_EPOCH)) }
    }

    /// Checks if visitors can be recognized within a bucket, i.e. if the bucket has a single salt. If the
    /// width does not divide the epoch, some buckets will always span two epochs, and this is allowed. It is also
    /// allowed if the same width is aligned in another precision, because these are the days of a time zone, which a
    /// process might not know.
    pub(crate) fn check(&self, visitors: &Precisions) -> Result<(), SaltError> {
        let epoch = self.rotating.epoch;
        // Visitors fit the days of a time zone, or the days are not used: see `Builder::local_days`.
        if self.rotating.days.is_some() {
            return Ok(());
        }
        let is_divisor = |precision: Precision| epoch.as_seconds().is_multiple_of(precision.as_seconds());
        let has_aligned = |precision: Precision| {
            let others = visitors.iter().map(|retention| retention.precision);
            others
                .filter(|other| other.as_seconds() == precision.as_seconds())
                .any(|other| other.divides(epoch))
        };
        let spans_epochs = |precision: &Precision| {
            precision.as_seconds() > epoch.as_seconds()
                || (is_divisor(*precision) && !precision.divides(epoch) && !has_aligned(*precision))
        };
        let rejected = visitors.iter().map(|retention| retention.precision).filter(spans_epochs).last();
        rejected.map_or(Ok(()), |precision| Err(SaltError { precision, epoch }))
    }
}

/// Returns the default epoch: a day, aligned with the coarsest of these precisions that divides a day. The
/// end of an epoch thus only splits buckets if their width does not divide a day.
pub(crate) fn default_epoch(visitors: &Precisions) -> Precision {
    let precisions = visitors.iter().map(|retention| retention.precision);
    let coarsest = precisions.filter(|p| DAY.as_seconds().is_multiple_of(p.as_seconds())).last();
    let start = coarsest.map_or(0, Precision::offset);
    DAY.starting_at(Timestamp::from_unix(start.into()))
}

impl Salts {
    fn new(epoch: Precision, secret: Option<VisitorKey>) -> Self {
        Self {
            epoch,
            days: None,
            secret,
            is_used: AtomicBool::new(false),
            current: Current::default(),
            recent: RecentVisitors::default(),
            slots: Mutex::default(),
        }
    }

    /// Returns the epoch that contains `at`.
    fn epoch(&self, at: Timestamp) -> Bucket {
        self.days.as_ref().map_or_else(|| self.epoch.bucket(at), |days| days.bucket(at))
    }

    /// Returns the key used to hash visitors in an epoch with this salt.
    pub(crate) fn key_of(&self, salt: [u8; 16]) -> VisitorKey {
        self.secret.map_or_else(|| VisitorKey::new(salt), |secret| secret.derived(&[&salt]))
    }

    /// Returns a handle. This enables fetching salts from the store.
    pub(crate) fn handle(self: &Arc<Self>) -> Salt {
        self.is_used.store(true, Ordering::Relaxed);
        Salt(Arc::clone(self))
    }

    /// Returns the key for the epoch that contains `at`, and the end of this epoch.
    #[inline]
    pub(crate) fn key(&self, at: Timestamp) -> (VisitorKey, Timestamp) {
        self.current.get(at).unwrap_or_else(|| self.start(at))
    }

    /// Like [`key`](Self::key), but returns a prepared key.
    #[inline]
    fn prepared_key(&self, at: Timestamp) -> (PreparedKey, Timestamp) {
        self.current.prepared(at).unwrap_or_else(|| self.start_prepared(at))
    }

    /// Returns the register for a visitor in the epoch that contains `at`, and the end of this epoch.
    #[inline(always)]
    fn register(&self, part: &[u8; 24], at: Timestamp) -> (Register, Timestamp) {
        let (key, end) = self.prepared_key(at);
        match self.recent.find(key, part) {
            Some(register) => (register, end),
            None => self.new_register(part, at),
        }
    }

    #[inline(never)]
    fn new_register(&self, part: &[u8; 24], at: Timestamp) -> (Register, Timestamp) {
        let (key, end) = self.prepared_key(at);
        let is_current = || self.current.prepared(at).is_some_and(|(current, _)| current == key);
        (self.recent.insert(key, part, is_current), end)
    }

    #[cold]
    fn start_prepared(&self, at: Timestamp) -> (PreparedKey, Timestamp) {
        let (key, end) = self.start(at);
        (PreparedKey::of(key), end)
    }

    /// Like [`key`](Self::key), but locks the slots and publishes the key. Only needed when an epoch starts,
    /// or if a concurrent thread is updating the key.
    #[cold]
    fn start(&self, at: Timestamp) -> (VisitorKey, Timestamp) {
        self.with(self.epoch(at), |slot| self.publish(slot))
    }

    /// Returns the first salt that should be offered to the store at `now`.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Offer> {
        if !self.is_used.load(Ordering::Relaxed) {
            return None;
        }
        let width = u64::from(self.epoch.as_seconds());
        let current = self.epoch(now);
        let next = self.epoch(current.end());
        let soon = now >= current.start.plus(width / 2);
        [current, next].into_iter().take(1 + usize::from(soon)).find_map(|epoch| {
            let candidate = self.with(epoch, |slot| slot.candidate)?;
            Some(Offer { epoch, candidate, expiry: epoch.end().plus(width) })
        })
    }

    /// Returns a salt to offer for the epoch that contains `at`, which need not be the current epoch.
    pub(crate) fn offer(&self, at: Timestamp, now: Timestamp) -> Offer {
        let epoch = self.epoch(at);
        let width = self.epoch.as_seconds().into();
        // The timestamp comes from a record, so it can be anything. Hits in the far future are not counted.
        let end = epoch.end().max(now).min(now.plus(width).plus(MAX_CLOCK_SKEW));
        let expiry = end.plus(width);
        Offer { epoch, candidate: random(), expiry }
    }

    /// Adopts the salt for an epoch from the store.
    pub(crate) fn adopt(&self, epoch: Bucket, salt: [u8; 16]) {
        self.with(epoch, |slot| {
            slot.key = self.key_of(salt);
            slot.candidate = None;
            _ = self.publish(slot);
            self.recent.clear();
        });
    }

    /// Publishes a slot, which must be locked. If two epochs are in use, e.g. around midnight or if the next
    /// epoch is being prepared, the latest call wins. Threads that need the other epoch will have to take the
    /// lock.
    fn publish(&self, slot: &Slot) -> (VisitorKey, Timestamp) {
        let epoch = self.epoch(slot.start);
        self.current.set(epoch.start.as_unix()..epoch.end().as_unix(), slot.key);
        (slot.key, epoch.end())
    }

    /// Calls a closure with the slot for an epoch. If the slot is empty, it is filled with a random salt.
    fn with<R>(&self, epoch: Bucket, access: impl FnOnce(&mut Slot) -> R) -> R {
        let candidate = random();
        let mut slots = self.slots.lock().expect("the lock is never poisoned");
        let slot = &mut slots[self.slot_index(epoch)];
        let dropped = slot.take_if(|slot| slot.start != epoch.start);
        let result = access(slot.get_or_insert_with(|| Slot {
            start: epoch.start,
            key: self.key_of(candidate),
            candidate: Some(candidate),
        }));
        if dropped.is_some() {
            self.recent.clear();
        }
        result
    }

    const fn slot_index(&self, epoch: Bucket) -> usize {
        let (width, offset) = (self.epoch.as_seconds() as u64, self.epoch.offset() as u64);
        // The start of a day in a time zone can be a few hours earlier or later.
        let number = epoch.start.plus(width / 2).as_unix().saturating_sub(offset) / width;
        if number.is_multiple_of(2) { 0 } else { 1 }
    }
}

impl fmt::Debug for Salts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Salts are secret and must not be logged.
        f.debug_struct("Salts").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl fmt::Display for SaltError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { precision, epoch } = self;
        if precision.as_seconds() <= epoch.as_seconds() {
            return write!(
                f,
                "the visitor precision {precision} is not aligned with the salt epoch of \
                 {epoch} s, so some buckets span two epochs and count visitors twice: use the same UTC \
                 offset for both, or choose a stable identity"
            );
        }
        write!(
            f,
            "the visitor precision {precision} is coarser than the salt epoch of {epoch} s, so \
             visitors would be counted once per epoch: choose a stable \
             identity, a longer epoch, or finer visitor precisions"
        )
    }
}

impl std::error::Error for SaltError {}

crate::log::debug::debug_in_full!(SaltError);
