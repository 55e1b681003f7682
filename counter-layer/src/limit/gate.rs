use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::{Dimensions, Error, Pass, WindowCounters, WindowStore};
use http::Request;
use tokio::time::timeout;

use super::LimitKey;
use super::fields::Policy;
use crate::RequestHead;

/// What happens to a request while the store is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAway {
    /// It passes, and is not limited: for limits that keep a service comfortable.
    Open,
    /// It is answered 503 with `Retry-After`: for limits that keep something safe, such as logins.
    Closed,
}

/// What is to become of a request.
#[derive(Debug)]
pub(super) enum Verdict {
    Passed(Pass),
    Limited(Pass),
    /// Nobody knows, and it passes.
    Open,
    /// Nobody knows, and it does not.
    Closed,
}

/// In a box: it does I/O, which costs more than the box, and so the store is no part of the layer's type.
pub(super) type Deciding = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// Decides on requests; what all services of one layer share.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) policy: Policy,
    pub(super) timeout: Duration,
    key: LimitKey,
    away: StoreAway,
    acquire: Arc<Acquire>,
    /// Whether the store was away at the last request.
    failing: Arc<AtomicBool>,
}

type Acquire = dyn Fn(Dimensions) -> Pin<Box<dyn Future<Output = Result<Pass, Error>> + Send>> + Send + Sync;

impl Gate {
    pub(super) fn new<S: WindowStore>(
        counters: WindowCounters<S>,
        limit: u32,
        key: LimitKey,
        away: StoreAway,
        policy: Policy,
        timeout: Duration,
    ) -> Self {
        let acquire = move |dimensions: Dimensions| {
            let counters = counters.clone();
            let acquire = async move { counters.try_acquire(&dimensions, limit, NonZeroU32::MIN).await };
            Box::pin(acquire) as Pin<Box<dyn Future<Output = _> + Send>>
        };
        Self { policy, timeout, key, away, acquire: Arc::new(acquire), failing: Arc::default() }
    }

    /// Begins to decide on a request; `None` when it is not limited.
    pub(super) fn decide<B>(&self, request: &Request<B>) -> Option<Deciding> {
        let dimensions = self.key.of(&RequestHead::of(request))?.text("limit", &self.policy.name);
        let acquired = timeout(self.timeout, (self.acquire)(dimensions));
        let (away, failing) = (self.away, Arc::clone(&self.failing));
        Some(Box::pin(async move {
            let (trouble, verdict) = match acquired.await {
                Ok(Ok(pass)) if pass.passed => (None, Verdict::Passed(pass)),
                Ok(Ok(pass)) => (None, Verdict::Limited(pass)),
                answer => {
                    let verdict = if away == StoreAway::Open { Verdict::Open } else { Verdict::Closed };
                    (Some(answer.map_or_else(|late| late.to_string(), in_words)), verdict)
                }
            };
            note(&failing, away, trouble);
            verdict
        }))
    }
}

fn in_words(answer: Result<Pass, Error>) -> String {
    answer.map_or_else(|error| error.to_string(), |_| String::new())
}

/// Logs when the trouble begins and when it ends.
fn note(failing: &AtomicBool, away: StoreAway, trouble: Option<String>) {
    match (failing.swap(trouble.is_some(), Ordering::Relaxed), trouble) {
        (false, Some(error)) => tracing::warn!(error, ?away, "the store of a limit is away"),
        (true, None) => tracing::info!("the store of a limit is back"),
        (false, None) | (true, Some(_)) => {}
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("policy", &self.policy).field("away", &self.away).finish_non_exhaustive()
    }
}
