use std::array;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::quality::RandomState;
use tokio::time::Instant;

use super::store::{Acquired, Addition, Earlier, WindowKey, WindowStore};
use crate::error::{Error, ErrorKind};
use crate::family::future::{BoxFuture, StoreFuture};
use crate::time::Timestamp;
use crate::time::expiry_clock::{Expired, Expiry, ExpiryClock};
use crate::visitor::VisitorId;

/// The window counters of a [`MemoryStore`](crate::MemoryStore).
///
/// The windows are sharded over multiple locks to limit the time a call waits for other calls or for a
/// growing table.
#[derive(Debug)]
pub(crate) struct MemoryWindows {
    hasher: RandomState,
    parts: [Mutex<Windows>; PARTS],
    /// Only used if a window has expired according to the process clock.
    clock: Mutex<ExpiryClock>,
}

/// The windows of a lock. Expired windows will be removed by subsequent calls.
#[derive(Debug, Default)]
struct Windows {
    counted: HashMap<Name, Counted, RandomState>,
    expiring: BTreeMap<Timestamp, Vec<Name>>,
    /// Total number of tokens in all windows.
    tokens: usize,
}

#[derive(Debug)]
struct Counted {
    count: u64,
    /// Sum of the earlier windows, which are final when this window is open. 0 if they don't count toward a
    /// limit.
    earlier: u64,
    expiry: Timestamp,
    tokens: HashSet<VisitorId>,
}

type Name = (Arc<str>, u32, Timestamp);

const PARTS: usize = 16;
/// Maximum number of windows and tokens per lock. The total of 524,288 takes about 150 MB.
const MAX_ENTRIES: usize = 32_768;
/// Maximum number of expired windows to remove per call. This must be more than a call adds, so that they
/// don't accumulate.
const MAX_REMOVED: usize = 32;

impl Default for MemoryWindows {
    fn default() -> Self {
        Self::since(Timestamp::now())
    }
}

impl MemoryWindows {
    /// Creates an empty store with a trusted time.
    fn since(trusted: Timestamp) -> Self {
        Self {
            hasher: RandomState::default(),
            parts: array::from_fn(|_| Mutex::default()),
            clock: Mutex::new(ExpiryClock::since(trusted, Instant::now())),
        }
    }

    /// Locks the windows of this counter and removes some expired windows.
    fn windows(&self, key: &WindowKey, now: Timestamp) -> MutexGuard<'_, Windows> {
        let mut windows = self.lock(key);
        self.clean(&mut windows, now);
        windows
    }

    fn lock(&self, key: &WindowKey) -> MutexGuard<'_, Windows> {
        let part = usize::try_from(self.hasher.hash_one(&key.counter) % PARTS as u64).expect("less than 16");
        self.parts[part].lock().expect("the lock is never poisoned")
    }

    fn clean(&self, windows: &mut Windows, now: Timestamp) {
        if windows.has_expired(now) {
            windows.clean(self.expiry(now));
        }
    }

    fn read(&self, keys: &[WindowKey]) -> Vec<u64> {
        let now = Timestamp::now();
        keys.iter().map(|key| self.windows(key, now).count(key, now)).collect()
    }

    fn expiry(&self, now: Timestamp) -> Expiry {
        let mut clock = self.clock.lock().expect("the lock is never poisoned");
        clock.expiry(now, now, Instant::now())
    }
}

impl WindowStore for MemoryWindows {
    fn add<'a>(&'a self, additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>> {
        Box::pin(async move {
            let now = Timestamp::now();
            let add = |addition: &Addition| self.windows(&addition.key, now).add(addition, 0, now);
            additions.iter().map(add).collect()
        })
    }

    fn add_once<'a>(&'a self, key: &'a WindowKey, token: VisitorId) -> StoreFuture<'a, (bool, u64)> {
        Box::pin(async move {
            let now = Timestamp::now();
            let windows = &mut *self.windows(key, now);
            key.check(now)?;
            if windows.get(key, now).is_some_and(|counted| counted.tokens.contains(&token)) {
                return Ok((false, windows.count(key, now)));
            }
            if windows.is_full() {
                return Err(full());
            }
            let count = windows.add(&Addition { key: key.clone(), amount: 1 }, 0, now)?;
            if let Some(counted) = windows.counted.get_mut(&name(key)) {
                counted.tokens.insert(token);
                windows.tokens += 1;
            }
            Ok((true, count))
        })
    }

    fn add_within<'a>(
        &'a self,
        addition: &'a Addition,
        earlier: Earlier<'a>,
        limit: u64,
    ) -> StoreFuture<'a, Acquired> {
        Box::pin(async move {
            let Addition { key, amount } = addition;
            let mut counts = earlier.is_empty().then(Vec::new);
            loop {
                let mut windows = self.lock(key);
                // We need the time while we hold the lock, so that nothing is added after the window is over.
                let now = Timestamp::now();
                key.check(now)?;
                self.clean(&mut windows, now);
                let counted = windows.get(key, now);
                let count = counted.map_or(0, |counted| counted.count);
                // In most cases, we don't need the individual counts.
                let sum = counted.map(|counted| counted.earlier);
                let checked = match (&counts, sum) {
                    (Some(counts), _) => Acquired::check(counts, count, *amount, limit, now).map_err(Some),
                    (None, Some(sum)) => {
                        Acquired::check(&[sum], count, *amount, limit, now).map_err(|_| None)
                    }
                    (None, None) => Err(None),
                };
                match checked {
                    Ok(before) => {
                        windows.add(addition, before - count, now)?;
                        return Ok(Acquired::added(before + amount, now));
                    }
                    Err(Some(rejected)) => return Ok(rejected),
                    Err(None) => {
                        // They can have another lock.
                        drop(windows);
                        counts = Some(self.read(&earlier.keys()));
                    }
                }
            }
        })
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn counts<'a>(&'a self, keys: &'a [WindowKey]) -> StoreFuture<'a, Vec<u64>> {
        Box::pin(async move { Ok(self.read(keys)) })
    }
}

impl Windows {
    fn add(&mut self, addition: &Addition, earlier: u64, now: Timestamp) -> Result<u64, Error> {
        let Addition { key, amount } = addition;
        key.check(now)?;
        let counted = self.get_or_insert(key, earlier, now)?;
        let sum = counted.count.checked_add(*amount).filter(|sum| i64::try_from(*sum).is_ok());
        counted.count = sum.ok_or_else(|| rejected("the count overflows"))?;
        Ok(counted.count)
    }

    fn count(&self, key: &WindowKey, now: Timestamp) -> u64 {
        self.get(key, now).map_or(0, |counted| counted.count)
    }

    fn get(&self, key: &WindowKey, now: Timestamp) -> Option<&Counted> {
        self.counted.get(&name(key)).filter(|counted| counted.expiry > now)
    }

    fn get_or_insert(
        &mut self,
        key: &WindowKey,
        earlier: u64,
        now: Timestamp,
    ) -> Result<&mut Counted, Error> {
        let name = name(key);
        self.remove_expired(&name, now);
        if !self.counted.contains_key(&name) {
            if self.is_full() {
                return Err(full());
            }
            self.expiring.entry(key.expiry).or_default().push(name.clone());
        }
        let counted = || Counted { count: 0, earlier, expiry: key.expiry, tokens: HashSet::new() };
        Ok(self.counted.entry(name).or_insert_with(counted))
    }

    fn is_full(&self) -> bool {
        self.counted.len() + self.tokens >= MAX_ENTRIES
    }

    fn remove_expired(&mut self, name: &Name, now: Timestamp) {
        if self.counted.get(name).is_some_and(|counted| counted.expiry <= now)
            && let Some(counted) = self.counted.remove(name)
        {
            self.tokens -= counted.tokens.len();
        }
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.expiring.first_key_value().is_some_and(|(expiry, _)| *expiry <= now)
    }

    /// Removes some expired windows.
    fn clean(&mut self, expiry: Expiry) {
        for expired in expiry.expired() {
            for _ in 0..MAX_REMOVED {
                if !self.remove_one(expired) {
                    break;
                }
            }
        }
    }

    /// Removes an expired window or an empty expiry entry. Returns `false` if there is nothing to remove.
    fn remove_one(&mut self, expired: Expired) -> bool {
        // Windows that started after a clock jump expire after those that started before the jump.
        let last = match expired.start_after {
            None => self.expiring.first_key_value(),
            Some(_) => self.expiring.range(..=expired.at).next_back(),
        };
        let Some(expiry) = last.map(|(expiry, _)| *expiry).filter(|expiry| *expiry <= expired.at) else {
            return false;
        };
        let names = self.expiring.get_mut(&expiry).expect("the entry exists");
        let Some((_, _, start)) = names.last() else {
            self.expiring.remove(&expiry);
            return true;
        };
        if !expired.contains(*start) {
            return false;
        }
        if let Some(name) = names.pop() {
            self.remove_expired(&name, expired.at);
        }
        true
    }
}

fn full() -> Error {
    rejected("the in-memory store is full until some windows expire")
}

fn rejected(why: &'static str) -> Error {
    Error::new(ErrorKind::Rejected).caused_by(why)
}

fn name(key: &WindowKey) -> Name {
    (Arc::clone(&key.counter), key.width, key.start)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// A counter in a window that expires in this number of seconds.
    fn key(counter: u64, seconds: u64) -> WindowKey {
        let now = Timestamp::now();
        let (start, expiry) = (now.minus(10), now.plus(seconds));
        WindowKey {
            counter: counter.to_string().into(),
            group: None,
            width: 60,
            start,
            expiry,
            open: start..expiry,
        }
    }

    fn add(windows: &MemoryWindows, key: WindowKey) -> Result<Acquired, Error> {
        let addition = Addition { key, amount: 1 };
        windows
            .add_within(&addition, Earlier::NONE, 10)
            .now_or_never()
            .expect("the in-memory store is immediate")
    }

    fn len(windows: &MemoryWindows) -> usize {
        windows.parts.iter().map(|part| part.lock().expect("no panic").counted.len()).sum()
    }

    #[test]
    fn a_full_store_rejects_new_windows_but_counts_in_existing_ones() {
        let windows = MemoryWindows::default();
        let first = key(0, 3600);
        let key = |counter: u64| WindowKey { counter: counter.to_string().into(), ..first.clone() };
        let rejected: Vec<_> = (0..600_000).filter(|counter| add(&windows, key(*counter)).is_err()).collect();
        assert!(len(&windows) <= PARTS * MAX_ENTRIES && !rejected.is_empty(), "{}", len(&windows));
        assert!(add(&windows, key(0)).is_ok());
        let error = add(&windows, key(rejected[0])).expect_err("the store is full");
        assert_eq!(*error.kind(), ErrorKind::Rejected);
    }

    #[test]
    fn tokens_are_bounded() {
        let (windows, key) = (MemoryWindows::default(), key(1, 3600));
        let token = |n: u64| {
            let token = crate::visitor::VisitorKey::new([7; 16]).visitor(&[&n.to_le_bytes()]);
            windows.add_once(&key, token).now_or_never().expect("the in-memory store is immediate")
        };
        let added = (0..40_000).filter(|n| token(*n).is_ok()).count();
        assert_eq!(added, MAX_ENTRIES - 1, "the window uses one entry");
        assert!(token(0).is_ok_and(|(is_added, _)| !is_added));
    }

    #[test]
    fn calls_remove_expired_windows_of_other_counters() {
        let mut windows = Windows::default();
        let (now, end) = (Timestamp::now(), Timestamp::now().plus(3600));
        let expiry = ExpiryClock::default().expiry(end, end, Instant::now());
        for counter in 0..1000 {
            windows.add(&Addition { key: key(counter, 60), amount: 1 }, 0, now).expect("not full");
        }
        assert_eq!((windows.counted.len(), windows.count(&key(1, 60), now)), (1000, 1));
        assert_eq!(windows.count(&key(1, 60), end), 0, "it has expired");
        for _ in 0..1000 {
            windows.clean(expiry);
        }
        assert_eq!((windows.counted.len(), windows.expiring.len()), (0, 0));
    }

    #[test]
    fn a_clock_jump_forward_and_back_keeps_all_windows() {
        let (day, now) = (86_400, Timestamp::now());
        // Equivalent to a clock jump of 200 days since the store was created.
        let before = now.minus(200 * day);
        let windows = MemoryWindows::since(before);
        let window = |counter: u64, start: Timestamp| WindowKey {
            start,
            expiry: start.plus(60),
            open: Timestamp::MIN..Timestamp::MAX,
            ..key(counter, 60)
        };
        // Half of the windows started before the jump. A few calls should remove the windows that expired
        // after the jump.
        for counter in 0..2000 {
            add(&windows, window(counter, before)).expect("not full");
            add(&windows, window(counter, now.minus(120))).expect("not full");
        }
        for counter in 0..200 {
            add(&windows, window(counter, now)).expect("not full");
        }
        let part = |windows: &MemoryWindows, start: Timestamp| {
            let parts = windows.parts.iter().map(|part| part.lock().expect("no panic"));
            parts.map(|part| part.counted.keys().filter(|name| name.2 == start).count()).sum::<usize>()
        };
        assert_eq!(part(&windows, before), 2000, "the clock may jump back");
        assert!(part(&windows, now.minus(120)) < 100, "windows after the jump don't accumulate");
        assert_eq!(part(&windows, now), 200);
        // The clock jumps back.
        let names = &window(7, before);
        let counted = windows.windows(names, before).count(names, before);
        assert_eq!(counted, 1);
    }
}
