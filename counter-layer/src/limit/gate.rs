use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::Error;
use counter_core::window::{Dimensions, Pass, WindowCounters};
use http::Request;

use super::LimitKey;
use super::decision::{Told, Verdict};
use super::fields::Policy;
use super::over::Over;
use super::patience::Patience;
use crate::RequestHead;

/// What happens to a request while the store is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAway {
    /// It passes, and is not limited: for limits that keep a service comfortable.
    Open,
    /// It is answered 503 with `Retry-After`: for limits that keep something safe, such as logins.
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
    known: Arc<Known>,
}

/// What is known of the store and of those it has refused.
#[derive(Debug, Default)]
struct Known {
    over: Over,
    patience: Patience,
    /// Whether the store was away at the last request.
    failing: AtomicBool,
}

type Acquire = dyn Fn(Dimensions) -> Pin<Box<dyn Future<Output = Result<Pass, Error>> + Send>> + Send + Sync;

impl Gate {
    pub(super) fn new(
        counters: WindowCounters,
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
        Self { policy, timeout, key, away, acquire: Arc::new(acquire), known: Arc::default() }
    }

    /// Begins to decide on a request; `None` when it is not limited.
    pub(super) fn decide<B>(&self, request: &Request<B>) -> Option<Deciding> {
        let dimensions = self.key.of(&RequestHead::of(request))?.scope(&self.policy.name);
        if let Some(told) = self.known.over.of(&dimensions) {
            return Some(Box::pin(std::future::ready(Verdict::Limited(told))));
        }
        let asked = (self.acquire)(dimensions.clone());
        let (away, timeout, known) = (self.away, self.timeout, Arc::clone(&self.known));
        Some(Box::pin(async move {
            let refused = || known.over.of(&dimensions).map(Verdict::Limited).map(Ok);
            let asked = async {
                let pass = asked.await?;
                known.is_there();
                Ok(known.verdict(dimensions.clone(), &pass))
            };
            let trouble = match known.patience.ask(timeout, refused, asked).await {
                Some(Ok(verdict)) => return verdict,
                Some(Err(error)) => Error::to_string(&error),
                None => "it does not answer".to_owned(),
            };
            // Of a flood some wait in the process for so long that it looks like trouble of the store.
            if let Some(told) = known.over.of(&dimensions) {
                return Verdict::Limited(told);
            }
            known.is_away(away, &trouble);
            if away == StoreAway::Open { Verdict::Open } else { Verdict::Closed }
        }))
    }
}

impl Known {
    fn verdict(&self, dimensions: Dimensions, pass: &Pass) -> Verdict {
        let told = Told::of(pass);
        if pass.passed {
            return Verdict::Passed(told);
        }
        self.over.note(dimensions, told);
        Verdict::Limited(told)
    }

    /// Logs when the trouble ends.
    fn is_there(&self) {
        if self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("the store of a limit is back");
        }
    }

    /// Logs when the trouble begins.
    fn is_away(&self, away: StoreAway, error: &str) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(error, ?away, "the store of a limit is away");
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("policy", &self.policy).field("away", &self.away).finish_non_exhaustive()
    }
}
