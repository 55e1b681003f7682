use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::quality::RandomState;
use tokio::time::Instant;

use crate::expiry_clock::ExpiryClock;
use crate::future::{Answer, BoxFuture};
use crate::window::{Addition, WindowKey, WindowStore};
use crate::{Error, ErrorKind, Timestamp, VisitorId};

/// Windows in the memory of the process.
#[derive(Debug, Default)]
pub(crate) struct MemoryWindows(Mutex<Windows>);

/// The windows that have not expired, and expired ones for up to a second.
#[derive(Debug, Default)]
struct Windows {
    counted: HashMap<(Arc<str>, u32, Timestamp), Counted, RandomState>,
    cleaned: Timestamp,
    clock: ExpiryClock,
}

#[derive(Debug)]
struct Counted {
    count: u64,
    expiry: Timestamp,
    tokens: HashSet<VisitorId>,
}

impl MemoryWindows {
    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl WindowStore for MemoryWindows {
    fn add<'a>(&'a self, additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>> {
        Box::pin(async move {
            let windows = &mut *self.windows();
            let now = Timestamp::now();
            additions.iter().map(|addition| windows.add(addition, now)).collect()
        })
    }

    fn add_once<'a>(&'a self, key: &'a WindowKey, token: VisitorId) -> Answer<'a, (bool, u64)> {
        Box::pin(async move {
            let windows = &mut *self.windows();
            let now = Timestamp::now();
            key.check(now)?;
            let count = windows.count(key, now);
            if windows.counted.get(&name(key)).is_some_and(|counted| counted.tokens.contains(&token)) {
                return Ok((false, count));
            }
            let count = windows.add(&Addition { key: key.clone(), amount: 1 }, now)?;
            if let Some(counted) = windows.counted.get_mut(&name(key)) {
                counted.tokens.insert(token);
            }
            Ok((true, count))
        })
    }

    fn add_within<'a>(&'a self, addition: &'a Addition, limit: u64) -> Answer<'a, (bool, u64)> {
        Box::pin(async move {
            let windows = &mut *self.windows();
            let now = Timestamp::now();
            addition.key.check(now)?;
            windows.clean(now);
            let name = name(&addition.key);
            let counted = windows.counted.get_mut(&name);
            let count = counted.as_ref().map_or(0, |counted| counted.count);
            let sum = count.checked_add(addition.amount).filter(|sum| *sum <= limit);
            let Some(sum) = sum else { return Ok((false, count)) };
            if i64::try_from(sum).is_err() {
                return Err(overflow());
            }
            match counted {
                Some(counted) => counted.count = sum,
                None => {
                    let expiry = addition.key.expiry;
                    windows.counted.insert(name, Counted { count: sum, expiry, tokens: HashSet::new() });
                }
            }
            Ok((true, sum))
        })
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn counts<'a>(&'a self, keys: &'a [WindowKey]) -> Answer<'a, Vec<u64>> {
        Box::pin(async move {
            let windows = &mut *self.windows();
            let now = Timestamp::now();
            Ok(keys.iter().map(|key| windows.count(key, now)).collect())
        })
    }
}

impl Windows {
    fn add(&mut self, addition: &Addition, now: Timestamp) -> Result<u64, Error> {
        self.clean(now);
        let Addition { key, amount } = addition;
        key.check(now)?;
        let counted = self.counted.entry(name(key)).or_insert_with(|| Counted {
            count: 0,
            expiry: key.expiry,
            tokens: HashSet::new(),
        });
        let sum = counted.count.checked_add(*amount).filter(|sum| i64::try_from(*sum).is_ok());
        counted.count = sum.ok_or_else(overflow)?;
        Ok(counted.count)
    }

    fn count(&mut self, key: &WindowKey, now: Timestamp) -> u64 {
        self.clean(now);
        self.counted.get(&name(key)).map_or(0, |counted| counted.count)
    }

    /// Removes expired windows; it looks at all of them, once a second.
    fn clean(&mut self, now: Timestamp) {
        if now != self.cleaned {
            self.cleaned = now;
            let expiry = self.clock.expiry(now, now, Instant::now());
            self.counted.retain(|(.., start), counted| !expiry.is_over(*start, counted.expiry));
        }
    }
}

fn overflow() -> Error {
    Error::new(ErrorKind::Refused).caused_by("the count overflows")
}

fn name(key: &WindowKey) -> (Arc<str>, u32, Timestamp) {
    (Arc::clone(&key.counter), key.width, key.start)
}
