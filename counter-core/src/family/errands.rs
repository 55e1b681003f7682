use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::future::StoreFuture;
use crate::log::unwind::catch_panic;

/// Small writes that could not be made, e.g. during an outage. The flusher tries again until they succeed.
///
/// A caller should add an errand only if its previous one has ended, so that the number is bounded by the number of callers.
#[derive(Clone, Default)]
pub struct Errands(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    errands: Vec<Errand>,
    retry_at: Option<Instant>,
}

type Errand = Arc<dyn Fn() -> StoreFuture<'static, ()> + Send + Sync>;

/// Time between two attempts.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Errands {
    /// Adds an errand, which is called until it succeeds. It must take a few seconds at most.
    pub fn add(&self, errand: impl Fn() -> StoreFuture<'static, ()> + Send + Sync + 'static) {
        self.queue().errands.push(Arc::new(errand));
    }

    /// Runs all errands, unless some of them have failed within the last second.
    pub(crate) async fn run(&self) {
        let errands = {
            let queue = self.queue();
            if queue.retry_at.is_some_and(|retry_at| Instant::now() < retry_at) {
                return;
            }
            queue.errands.clone()
        };
        for errand in errands {
            let has_failed = catch_panic(async { errand().await }).await.is_err();
            let queue = &mut *self.queue();
            if has_failed {
                queue.retry_at = Some(Instant::now() + RETRY_DELAY);
            } else {
                queue.errands.retain(|other| !Arc::ptr_eq(other, &errand));
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().expect("the lock is never poisoned")
    }
}

impl fmt::Debug for Errands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.queue().errands.iter().map(|_| "errand")).finish()
    }
}
