use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::watch;

/// What a proxy does wrong at the moment, and what it has done wrong.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) conduct: watch::Sender<Conduct>,
    pub(super) to_swallow: Budget,
    pub(super) to_drop: Budget,
    connections: AtomicU64,
}

/// How all connections are treated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conduct {
    pub(super) refuse: bool,
    pub(super) black_hole: bool,
    pub(super) delay: Duration,
}

impl Faults {
    /// Waits until the conduct is such.
    pub(super) async fn until(&self, such: impl FnMut(&Conduct) -> bool) {
        let mut conduct = self.conduct.subscribe();
        drop(conduct.wait_for(such).await.expect("we hold the sender"));
    }

    pub(super) fn delay(&self) -> Duration {
        self.conduct.borrow().delay
    }

    pub(super) fn count_connection(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }
}

/// How often a fault is still to happen, and how often it has.
#[derive(Debug, Default)]
pub(super) struct Budget {
    left: AtomicU64,
    spent: AtomicU64,
}

impl Budget {
    pub(super) fn set(&self, left: u64) {
        self.left.store(left, Relaxed);
    }

    /// Takes one, if there is one left.
    pub(super) fn spend(&self) -> bool {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        self.spent.fetch_add(u64::from(taken), Relaxed);
        taken
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent.load(Relaxed)
    }
}
