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
use super::over::ExceededKeys;
use super::turns::Turns;
use crate::closure::{catch_panic, catch_panic_future};
use crate::identity::RequestHead;

/// Policy for requests if the store fails or does not reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStoreError {
    /// Serves the request. Use this for limits that keep a service responsive.
    Allow,
    /// Responds with 503 and `Retry-After`. Use this for limits that protect e.g. a login.
    Deny,
}

/// Either a decision, or a pending call to the store.
pub(super) enum Deciding {
    Decided(Decision),
    Pending(Pending),
}

/// A pending call to the store. It is boxed to keep the store out of our layer type; compared to the I/O,
/// this is very cheap.
pub(super) type Pending = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// Decides requests. Shared by all services of a layer.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) policy: Policy,
    pub(super) timeout: Duration,
    pub(super) is_sliding: bool,
    counters: WindowCounters,
    limit: u32,
    key: LimitKey,
    on_error: OnStoreError,
    known: Arc<StoreState>,
}

/// State of the store, and the keys over the limit.
#[derive(Debug)]
struct StoreState {
    over: ExceededKeys,
    turns: Turns,
    /// True if the store failed for the last request.
    failing: AtomicBool,
    /// Time of the last failure.
    failed: Mutex<Option<Instant>>,
}

/// Time since the last failure until the store is considered to be available, because until then, some
/// requests may still fail.
const RECOVERY_DELAY: Duration = Duration::from_secs(1);

impl Gate {
    pub(super) fn new(
        counters: WindowCounters,
        limit: u32,
        key: LimitKey,
        on_error: OnStoreError,
        policy: Policy,
        timeout: Duration,
    ) -> Self {
        let known = Arc::new(StoreState::new(counters.shards()));
        Self { policy, timeout, is_sliding: false, counters, limit, key, on_error, known }
    }

    /// Starts to decide a request. Returns `None` if it is not limited.
    pub(super) fn decide<B>(self: &Arc<Self>, request: &Request<B>) -> Option<Deciding> {
        let dimensions = self.key.of(&RequestHead::of(request))?.scope(&self.policy.name);
        if let Some(quota) = self.known.over.of(&dimensions) {
            return Some(Deciding::Decided(Decision::Limit(quota)));
        }
        let sent_at = Instant::now();
        let reply = catch_panic(|| match self.is_sliding {
            true => self.counters.try_acquire_sliding_now(&dimensions, self.limit, NonZeroU32::MIN),
            false => self.counters.try_acquire_now(&dimensions, self.limit, NonZeroU32::MIN),
        });
        if let Some(reply) = reply.unwrap_or_else(|| Some(Err(panicked()))) {
            let decided = self.accept_reply(&dimensions, reply, sent_at);
            return Some(Deciding::Decided(self.decision_or_fallback(&dimensions, Some(decided))));
        }
        let gate = Arc::clone(self);
        Some(Deciding::Pending(Box::pin(async move {
            let rejected = || gate.known.over.of(&dimensions).map(Decision::Limit);
            let call = async {
                let sent_at = Instant::now();
                let reply = async {
                    match gate.is_sliding {
                        true => {
                            gate.counters.try_acquire_sliding(&dimensions, gate.limit, NonZeroU32::MIN).await
                        }
                        false => gate.counters.try_acquire(&dimensions, gate.limit, NonZeroU32::MIN).await,
                    }
                };
                let reply = catch_panic_future(reply).await.unwrap_or_else(|| Err(panicked()));
                gate.accept_reply(&dimensions, reply, sent_at)
            };
            let shard = match gate.is_sliding {
                true => gate.counters.sliding_shard(&dimensions),
                false => gate.counters.shard(&dimensions),
            };
            let decided = gate.known.turns.call(shard, gate.timeout, rejected, call).await;
            gate.decision_or_fallback(&dimensions, decided)
        })))
    }

    fn accept_reply(
        &self,
        dimensions: &Dimensions,
        reply: Result<LimitDecision, Error>,
        sent_at: Instant,
    ) -> Result<Decision, Error> {
        let decided = reply?;
        self.known.report_success();
        let quota = Quota::of(&decided, sent_at);
        if decided.allowed {
            return Ok(Decision::Allow(quota));
        }
        self.known.over.note(dimensions.clone(), quota);
        Ok(Decision::Limit(quota))
    }

    /// Returns the decision, or the fallback if the store did not decide.
    fn decision_or_fallback(
        &self,
        dimensions: &Dimensions,
        decided: Option<Result<Decision, Error>>,
    ) -> Decision {
        let failure = match decided {
            Some(Ok(decision)) => return decision,
            Some(Err(error)) => Error::to_string(&error),
            None => "timed out".to_owned(),
        };
        // During a flood, requests may wait in our process for so long that it looks like a store failure.
        if let Some(quota) = self.known.over.of(dimensions) {
            return Decision::Limit(quota);
        }
        self.known.report_failure(self.on_error, &failure);
        if self.on_error == OnStoreError::Allow { Decision::AllowUncounted } else { Decision::DenyUncounted }
    }
}

/// Returns the error for a store that panicked. It is handled like any other store failure.
const fn panicked() -> Error {
    Error::new(ErrorKind::Panicked)
}

impl StoreState {
    fn new(shards: Shards) -> Self {
        Self {
            over: ExceededKeys::default(),
            turns: Turns::new(shards),
            failing: AtomicBool::new(false),
            failed: Mutex::default(),
        }
    }

    /// Logs the end of a failure.
    fn report_success(&self) {
        // We check this first, because a load is much cheaper than a swap, and the state rarely changes.
        if self.failing.load(Ordering::Relaxed)
            && self.failed().is_none_or(|at| at.elapsed() >= RECOVERY_DELAY)
            && self.failing.swap(false, Ordering::Relaxed)
        {
            catch_panic(|| tracing::info!("the store of a limit is available again"));
        }
    }

    /// Logs the start of a failure.
    fn report_failure(&self, on_error: OnStoreError, error: &str) {
        *self.failed() = Some(Instant::now());
        if !self.failing.swap(true, Ordering::Relaxed) {
            catch_panic(|| tracing::warn!(error, ?on_error, "the store of a limit is unavailable"));
        }
    }

    fn failed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.failed.lock().expect("the lock is never poisoned")
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
