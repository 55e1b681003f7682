use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use crate::entity::cache::EntityLease;
use crate::entity::id::EntityId;
use crate::time::later::later;

/// Leases of readers that were dropped before storing a copy.
///
/// The cache does not detect this, and will not grant a new lease until the abandoned lease expires.
/// Therefore, the next reader in this process takes over the lease. This is safe, because reporting a change
/// ends the lease regardless of the holder.
#[derive(Clone, Debug, Default)]
pub(in crate::entity) struct AbandonedLeases(Arc<Mutex<HashMap<EntityId, Abandoned>>>);

#[derive(Clone, Copy, Debug)]
struct Abandoned {
    lease: EntityLease,
    end: Instant,
}

/// A lease for some entities. If this is dropped without being disarmed, the lease becomes available to the
/// next reader.
#[derive(Debug)]
pub(in crate::entity) struct LeaseGuard {
    abandoned: AbandonedLeases,
    lease: Abandoned,
    ids: Vec<EntityId>,
}

/// Maximum number of abandoned leases to track. Further leases will just expire.
const MAX_ABANDONED: usize = 10_000;

impl AbandonedLeases {
    /// Creates a guard for a lease to be granted by the cache.
    pub(in crate::entity) fn guard(&self, lease: EntityLease, ids: Vec<EntityId>) -> LeaseGuard {
        let lease = Abandoned { lease, end: later(Instant::now(), lease.ttl) };
        LeaseGuard { abandoned: self.clone(), lease, ids }
    }

    /// Takes over leases for some of these entities, and removes the entities from the list.
    pub(in crate::entity) fn take(&self, ids: &mut Vec<EntityId>) -> Vec<LeaseGuard> {
        let (mut abandoned, now) = (self.lock(), Instant::now());
        let mut taken: HashMap<u64, LeaseGuard> = HashMap::new();
        ids.retain(|&id| {
            let Some(lease) = abandoned.remove(&id).filter(|lease| lease.end > now) else { return true };
            let guard = taken.entry(lease.lease.token);
            guard
                .or_insert_with(|| LeaseGuard { abandoned: self.clone(), lease, ids: Vec::new() })
                .ids
                .push(id);
            false
        });
        taken.into_values().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntityId, Abandoned>> {
        self.0.lock().expect("the lock is never poisoned")
    }
}

impl LeaseGuard {
    pub(in crate::entity) const fn lease(&self) -> EntityLease {
        self.lease.lease
    }

    pub(in crate::entity) fn ids(&self) -> &[EntityId] {
        &self.ids
    }

    /// Restricts the guard to entities that were granted the lease.
    pub(in crate::entity) fn granted(&mut self, ids: Vec<EntityId>) {
        self.ids = ids;
    }

    /// Disarms the guard, because the lease was ended by the cache.
    pub(in crate::entity) fn disarm(mut self) {
        self.ids.clear();
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        if self.ids.is_empty() {
            return;
        }
        let mut abandoned = self.abandoned.lock();
        if abandoned.len() + self.ids.len() > MAX_ABANDONED {
            let now = Instant::now();
            abandoned.retain(|_, lease| lease.end > now);
        }
        let free = MAX_ABANDONED.saturating_sub(abandoned.len());
        abandoned.extend(self.ids.drain(..).take(free).map(|id| (id, self.lease)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TTL: Duration = Duration::from_secs(3);

    fn ids(ids: std::ops::Range<u64>) -> Vec<EntityId> {
        ids.map(EntityId::from).collect()
    }

    fn lease(token: u64) -> EntityLease {
        EntityLease { token, ttl: TTL }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_lease_can_be_taken_over_once_until_it_expires() {
        let abandoned = AbandonedLeases::default();
        drop(abandoned.guard(lease(1), ids(0..2)));
        abandoned.guard(lease(2), ids(2..3)).disarm();
        let mut requested = ids(1..4);
        let taken = abandoned.take(&mut requested);
        assert_eq!(
            taken.iter().map(|guard| (guard.lease(), guard.ids().to_vec())).collect::<Vec<_>>(),
            [(lease(1), ids(1..2))]
        );
        assert_eq!(requested, ids(2..4));
        assert!(abandoned.take(&mut ids(1..2)).is_empty());
        tokio::time::advance(TTL).await;
        assert!(abandoned.take(&mut ids(0..1)).is_empty(), "it has ended");
    }

    #[test]
    fn abandoned_leases_are_bounded() {
        let abandoned = AbandonedLeases::default();
        drop(abandoned.guard(lease(1), ids(0..20_000)));
        drop(abandoned.guard(lease(2), ids(20_000..40_000)));
        assert_eq!(abandoned.lock().len(), MAX_ABANDONED);
    }
}
