use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use counter_core::stores::Shards;
use counter_core::window::{Dimensions, LimitDecision, WindowCounters};
use counter_core::{Error, ErrorKind};
use http::Request;
use tokio::time::Instant;

use super::decision::{Decision, Quota};
use super::fields::Policy;
use super::key::LimitKey;
use super::over::Over;
use super::turns::Turns;
use crate::closure::{caught, caught_future};
use crate::identity::RequestHead;

/// The treatment of requests while the store fails or does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStoreError {
    /// Serves the request without limiting it: for limits that keep a service responsive.
    Allow,
    /// Answers 503 with `Retry-After`: for limits that protect something, such as logins.
    Deny,
}

/// A decision that is there, or one that the store is asked for.
pub(super) enum Deciding {
    Decided(Decision),
    Asking(Asking),
}

/// In a box: it does I/O, which costs more than the box, and so the store is no part of the layer's type.
pub(super) type Asking = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// Decides on requests; what all services of one layer share.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) policy: Policy,
    pub(super) timeout: Duration,
    counters: WindowCounters,
    limit: u32,
    key: LimitKey,
    on_error: OnStoreError,
    known: Arc<Known>,
}

/// The state of the store, and the keys that it has refused.
#[derive(Debug)]
struct Known {
    over: Over,
    turns: Turns,
    /// The store failed at the last request.
    failing: AtomicBool,
    /// The time of the last failure.
    failed: Mutex<Option<Instant>>,
}

/// Time without a failure after which the store counts as back: some requests may still fail until then.
const CALM: Duration = Duration::from_secs(1);

impl Gate {
    pub(super) fn new(
        counters: WindowCounters,
        limit: u32,
        key: LimitKey,
        on_error: OnStoreError,
        policy: Policy,
        timeout: Duration,
    ) -> Self {
        let known = Arc::new(Known::new(counters.shards()));
        Self { policy, timeout, counters, limit, key, on_error, known }
    }

    /// Begins to decide on a request; `None` when it is not limited.
    pub(super) fn decide<B>(self: &Arc<Self>, request: &Request<B>) -> Option<Deciding> {
        let dimensions = self.key.of(&RequestHead::of(request))?.scope(&self.policy.name);
        if let Some(quota) = self.known.over.of(&dimensions) {
            return Some(Deciding::Decided(Decision::Limit(quota)));
        }
        let asked = Instant::now();
        let answer = caught(|| self.counters.try_acquire_now(&dimensions, self.limit, NonZeroU32::MIN));
        if let Some(answer) = answer.unwrap_or_else(|| Some(Err(panicked()))) {
            let decided = self.answered(&dimensions, answer, asked);
            return Some(Deciding::Decided(self.known_or_away(&dimensions, Some(decided))));
        }
        let gate = Arc::clone(self);
        Some(Deciding::Asking(Box::pin(async move {
            let refused = || gate.known.over.of(&dimensions).map(Decision::Limit);
            let call = async {
                let asked = Instant::now();
                let answer = gate.counters.try_acquire(&dimensions, gate.limit, NonZeroU32::MIN);
                let answer = caught_future(answer).await.unwrap_or_else(|| Err(panicked()));
                gate.answered(&dimensions, answer, asked)
            };
            let shard = gate.counters.shard(&dimensions);
            let decided = gate.known.turns.call(shard, gate.timeout, refused, call).await;
            gate.known_or_away(&dimensions, decided)
        })))
    }

    fn answered(
        &self,
        dimensions: &Dimensions,
        answer: Result<LimitDecision, Error>,
        asked: Instant,
    ) -> Result<Decision, Error> {
        let decided = answer?;
        self.known.is_there();
        let quota = Quota::of(&decided, asked);
        if decided.allowed {
            return Ok(Decision::Allow(quota));
        }
        self.known.over.note(dimensions.clone(), quota);
        Ok(Decision::Limit(quota))
    }

    /// Returns the decision, or what is done where there is none.
    fn known_or_away(&self, dimensions: &Dimensions, decided: Option<Result<Decision, Error>>) -> Decision {
        let trouble = match decided {
            Some(Ok(decision)) => return decision,
            Some(Err(error)) => Error::to_string(&error),
            None => "it does not decide in time".to_owned(),
        };
        // Of a flood some wait in the process for so long that it looks like trouble of the store.
        if let Some(quota) = self.known.over.of(dimensions) {
            return Decision::Limit(quota);
        }
        self.known.is_away(self.on_error, &trouble);
        if self.on_error == OnStoreError::Allow { Decision::AllowUncounted } else { Decision::DenyUncounted }
    }
}

/// The error of a store that panics: its requests are treated as those of any other store that fails.
const fn panicked() -> Error {
    Error::new(ErrorKind::Panicked)
}

impl Known {
    fn new(shards: Shards) -> Self {
        Self {
            over: Over::default(),
            turns: Turns::new(shards),
            failing: AtomicBool::new(false),
            failed: Mutex::default(),
        }
    }

    /// Logs when the trouble ends.
    fn is_there(&self) {
        // A look takes less than a change, of which there is nearly never one.
        if self.failing.load(Ordering::Relaxed)
            && self.failed().is_none_or(|at| at.elapsed() >= CALM)
            && self.failing.swap(false, Ordering::Relaxed)
        {
            caught(|| tracing::info!("the store of a limit is back"));
        }
    }

    /// Logs when the trouble begins.
    fn is_away(&self, on_error: OnStoreError, error: &str) {
        *self.failed() = Some(Instant::now());
        if !self.failing.swap(true, Ordering::Relaxed) {
            caught(|| tracing::warn!(error, ?on_error, "the store of a limit is away"));
        }
    }

    fn failed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.failed.lock().expect("nothing panics under this lock")
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
