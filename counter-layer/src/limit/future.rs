use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::decision::{Decision, Quota};
use super::fields::retry_after;
use super::gate::{Gate, Pending};
use super::rejection::{EmptyRejection, Rejection};

/// The `Retry-After` value to send if the store fails.
const RETRY_AFTER_SECONDS: u64 = 2;

pin_project! {
    /// The response future of [`WindowLimit`](crate::WindowLimit).
    ///
    /// If the store is in memory, the request is already counted when this future is created; otherwise it
    /// will be counted when the future is polled.
    #[must_use = "futures do nothing unless polled"]
    pub struct LimitFuture<S, B, A = EmptyRejection>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, S::Future, B>,
        rejection: Arc<A>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, F, B> {
        Pending { pending: Pending, gate: Arc<Gate>, waiting: Option<(S, Request<B>)> },
        Rejected { decision: Decision, gate: Arc<Gate> },
        Serving { #[pin] future: F, allowed: Option<(Arc<Gate>, Quota)> },
    }
}

impl<S, B, A> LimitFuture<S, B, A>
where
    S: Service<Request<B>>,
{
    pub(super) const fn serving(
        future: S::Future,
        allowed: Option<(Arc<Gate>, Quota)>,
        rejection: Arc<A>,
    ) -> Self {
        Self { state: State::Serving { future, allowed }, rejection }
    }

    pub(super) const fn rejected(decision: Decision, gate: Arc<Gate>, rejection: Arc<A>) -> Self {
        Self { state: State::Rejected { decision, gate }, rejection }
    }

    pub(super) const fn pending(
        pending: Pending,
        gate: Arc<Gate>,
        rejection: Arc<A>,
        inner: S,
        request: Request<B>,
    ) -> Self {
        let state = State::Pending { pending, gate, waiting: Some((inner, request)) };
        Self { state, rejection }
    }
}

impl<S, B, A, R> Future for LimitFuture<S, B, A>
where
    S: Service<Request<B>, Response = Response<R>>,
    A: Rejection<R>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (mut state, rejection) = (this.state, &**this.rejection);
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Pending { pending, gate, waiting } => {
                    let decision = ready!(pending.as_mut().poll(cx));
                    let gate = Arc::clone(gate);
                    let allowed = match decision {
                        Decision::Allow(quota) => Some((gate, quota)),
                        Decision::AllowUncounted => None,
                        Decision::Limit(_) | Decision::DenyUncounted => {
                            state.set(State::Rejected { decision, gate });
                            continue;
                        }
                    };
                    let (mut inner, request) = waiting.take().expect("polled after completion");
                    State::Serving { future: inner.call(request), allowed }
                }
                StateProjection::Rejected { decision, gate } => {
                    return Poll::Ready(Ok(match decision {
                        Decision::Limit(quota) => limited(rejection, gate, quota),
                        _ => unavailable(rejection),
                    }));
                }
                StateProjection::Serving { future, allowed } => {
                    let mut result = ready!(future.poll(cx));
                    if let (Ok(response), Some((gate, quota))) = (&mut result, allowed) {
                        gate.policy.write(quota, response.headers_mut());
                    }
                    return Poll::Ready(result);
                }
            };
            state.set(next);
        }
    }
}

fn limited<R>(rejection: &impl Rejection<R>, gate: &Gate, quota: &Quota) -> Response<R> {
    let mut response = rejection.limited(&gate.policy.name);
    gate.policy.write(quota, response.headers_mut());
    retry_after(quota.seconds(), response.headers_mut());
    response
}

fn unavailable<R>(rejection: &impl Rejection<R>) -> Response<R> {
    let mut response = rejection.unavailable();
    retry_after(RETRY_AFTER_SECONDS, response.headers_mut());
    response
}

impl<S, B, A> fmt::Debug for LimitFuture<S, B, A>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitFuture").finish_non_exhaustive()
    }
}
