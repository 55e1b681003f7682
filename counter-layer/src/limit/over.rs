use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use counter_core::window::Dimensions;
use tokio::time::Instant;

use super::decision::Quota;

/// Maximum number of keys to cache.
const MAX_KEYS: usize = 4096;

/// Keys over the limit, cached until their window ends, to reject requests without a call to the store.
///
/// Within a window counts only grow, so if the store rejected a key, it would reject the key again. A sliding
/// window reports the time at which the count will be low enough.
#[derive(Debug, Default)]
pub(super) struct ExceededKeys(Mutex<Rejections>);

#[derive(Debug, Default)]
struct Rejections {
    quotas: HashMap<Dimensions, Quota>,
    /// The latest end of a window with a cached key.
    ends: Option<Instant>,
    cleaned: Option<Instant>,
}

impl ExceededKeys {
    /// Returns the quota for this key if it is known to be over the limit.
    pub(super) fn of(&self, key: &Dimensions) -> Option<Quota> {
        let known = self.0.lock().expect("the lock is never poisoned");
        let ends = known.ends?;
        // The store clock uses whole seconds, so in the last second, the next window may already have
        // started.
        let now = Instant::now() + Duration::from_secs(1);
        // We don't need to hash the key in this case.
        if ends <= now {
            return None;
        }
        known.quotas.get(key).filter(|quota| quota.ends > now).copied()
    }

    /// Caches a rejection, unless the cache is full.
    pub(super) fn note(&self, key: Dimensions, quota: Quota) {
        let now = Instant::now();
        let mut known = self.0.lock().expect("the lock is never poisoned");
        if known.quotas.len() >= MAX_KEYS
            && known.cleaned.is_none_or(|last| now - last >= Duration::from_secs(1))
        {
            known.cleaned = Some(now);
            known.quotas.retain(|_, quota| quota.ends > now);
        }
        if known.quotas.len() < MAX_KEYS || known.quotas.contains_key(&key) {
            known.ends = known.ends.max(Some(quota.ends));
            known.quotas.insert(key, quota);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> Dimensions {
        Dimensions::new().text("n", &n.to_string())
    }

    fn quota(seconds: u64) -> Quota {
        Quota { remaining: 0, ends: Instant::now() + Duration::from_secs(seconds) }
    }

    #[tokio::test(start_paused = true)]
    async fn rejections_are_cached_until_their_window_ends() {
        let over = ExceededKeys::default();
        (0..MAX_KEYS).for_each(|n| over.note(key(n), quota(if n % 2 == 0 { 10 } else { 20 })));
        over.note(key(MAX_KEYS), quota(20));
        assert!(over.of(&key(0)).is_some() && over.of(&key(MAX_KEYS)).is_none());
        tokio::time::advance(Duration::from_secs(8)).await;
        assert!(over.of(&key(0)).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(over.of(&key(0)).is_none(), "another window may have begun");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(over.of(&key(0)).is_none() && over.of(&key(1)).is_some());
        // Expired keys make room for new keys.
        over.note(key(MAX_KEYS), quota(20));
        assert!(over.of(&key(MAX_KEYS)).is_some() && over.of(&key(1)).is_some());
    }
}
