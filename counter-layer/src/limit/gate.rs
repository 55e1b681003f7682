use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::Error;
use counter_core::window::{Dimensions, LimitDecision, WindowCounters};
use http::Request;

use super::LimitKey;
use super::decision::{Decision, Quota};
use super::fields::Policy;
use super::over::Over;
use super::patience::Patience;
use crate::RequestHead;

/// The treatment of requests while the store fails or does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStoreError {
    /// Serves the request without limiting it: for limits that keep a service responsive.
    Allow,
    /// Answers 503 with `Retry-After`: for limits that protect something, such as logins.
    Deny,
}

/// In a box: it does I/O, which costs more than the box, and so the store is no part of the layer's type.
pub(super) type Deciding = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// Decides on requests; what all services of one layer share.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) policy: Policy,
    pub(super) timeout: Duration,
    key: LimitKey,
    on_error: OnStoreError,
    acquire: Arc<Acquire>,
    known: Arc<Known>,
}

/// The state of the store, and the keys that it has refused.
#[derive(Debug, Default)]
struct Known {
    over: Over,
    patience: Patience,
    /// The store failed at the last request.
    failing: AtomicBool,
}

type Acquire =
    dyn Fn(Dimensions) -> Pin<Box<dyn Future<Output = Result<LimitDecision, Error>> + Send>> + Send + Sync;

impl Gate {
    pub(super) fn new(
        counters: WindowCounters,
        limit: u32,
        key: LimitKey,
        on_error: OnStoreError,
        policy: Policy,
        timeout: Duration,
    ) -> Self {
        let acquire = move |dimensions: Dimensions| {
            let counters = counters.clone();
            let acquire = async move { counters.try_acquire(&dimensions, limit, NonZeroU32::MIN).await };
            Box::pin(acquire) as Pin<Box<dyn Future<Output = _> + Send>>
        };
        Self { policy, timeout, key, on_error, acquire: Arc::new(acquire), known: Arc::default() }
    }

    /// Begins to decide on a request; `None` when it is not limited.
    pub(super) fn decide<B>(&self, request: &Request<B>) -> Option<Deciding> {
        let dimensions = self.key.of(&RequestHead::of(request))?.scope(&self.policy.name);
        if let Some(quota) = self.known.over.of(&dimensions) {
            return Some(Box::pin(std::future::ready(Decision::Limit(quota))));
        }
        let asked = (self.acquire)(dimensions.clone());
        let (on_error, timeout, known) = (self.on_error, self.timeout, Arc::clone(&self.known));
        Some(Box::pin(async move {
            let refused = || known.over.of(&dimensions).map(Decision::Limit).map(Ok);
            let asked = async {
                let decided = asked.await?;
                known.is_there();
                Ok(known.decision(dimensions.clone(), &decided))
            };
            let trouble = match known.patience.ask(timeout, refused, asked).await {
                Some(Ok(decision)) => return decision,
                Some(Err(error)) => Error::to_string(&error),
                None => "it does not answer".to_owned(),
            };
            // Of a flood some wait in the process for so long that it looks like trouble of the store.
            if let Some(quota) = known.over.of(&dimensions) {
                return Decision::Limit(quota);
            }
            known.is_away(on_error, &trouble);
            if on_error == OnStoreError::Allow { Decision::AllowUncounted } else { Decision::DenyUncounted }
        }))
    }
}

impl Known {
    fn decision(&self, dimensions: Dimensions, decided: &LimitDecision) -> Decision {
        let quota = Quota::of(decided);
        if decided.allowed {
            return Decision::Allow(quota);
        }
        self.over.note(dimensions, quota);
        Decision::Limit(quota)
    }

    /// Logs when the trouble ends.
    fn is_there(&self) {
        if self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("the store of a limit is back");
        }
    }

    /// Logs when the trouble begins.
    fn is_away(&self, on_error: OnStoreError, error: &str) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(error, ?on_error, "the store of a limit is away");
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("policy", &self.policy)
            .field("on_error", &self.on_error)
            .finish_non_exhaustive()
    }
}
