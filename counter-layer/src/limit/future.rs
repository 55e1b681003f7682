use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use counter_core::{Pass, Timestamp};
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::fields::{retry_after, seconds};
use super::gate::{Deciding, Gate, Verdict};

/// To clients that come while the store is away.
const AWAY_SECONDS: u64 = 2;

pin_project! {
    /// The response future of [`WindowLimit`](crate::WindowLimit).
    #[must_use = "futures do nothing unless polled"]
    pub struct LimitFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, S::Future, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, F, B> {
        Deciding { deciding: Deciding, gate: Arc<Gate>, waiting: Option<(S, Request<B>)> },
        Serving { #[pin] future: F, passed: Option<(Arc<Gate>, Pass)> },
    }
}

impl<S, B> LimitFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) const fn unlimited(future: S::Future) -> Self {
        Self { state: State::Serving { future, passed: None } }
    }

    pub(super) const fn deciding(deciding: Deciding, gate: Arc<Gate>, inner: S, request: Request<B>) -> Self {
        Self { state: State::Deciding { deciding, gate, waiting: Some((inner, request)) } }
    }
}

impl<S, B, R> Future for LimitFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Deciding { deciding, gate, waiting } => {
                    let verdict = ready!(deciding.as_mut().poll(cx));
                    let passed = match verdict {
                        Verdict::Passed(pass) => Some((Arc::clone(gate), pass)),
                        Verdict::Open => None,
                        Verdict::Limited(pass) => return Poll::Ready(Ok(limited(gate, &pass))),
                        Verdict::Closed => return Poll::Ready(Ok(closed())),
                    };
                    let (mut inner, request) = waiting.take().expect("polled after completion");
                    State::Serving { future: inner.call(request), passed }
                }
                StateProjection::Serving { future, passed } => {
                    let mut answer = ready!(future.poll(cx));
                    if let (Ok(response), Some((gate, pass))) = (&mut answer, passed) {
                        gate.policy.write(pass, Timestamp::now(), response.headers_mut());
                    }
                    return Poll::Ready(answer);
                }
            };
            state.set(next);
        }
    }
}

fn limited<R: Default>(gate: &Gate, pass: &Pass) -> Response<R> {
    let mut response = empty(StatusCode::TOO_MANY_REQUESTS);
    let now = Timestamp::now();
    gate.policy.write(pass, now, response.headers_mut());
    retry_after(seconds(pass, now), response.headers_mut());
    response
}

fn closed<R: Default>() -> Response<R> {
    let mut response = empty(StatusCode::SERVICE_UNAVAILABLE);
    retry_after(AWAY_SECONDS, response.headers_mut());
    response
}

fn empty<R: Default>(status: StatusCode) -> Response<R> {
    let mut response = Response::new(R::default());
    *response.status_mut() = status;
    response
}

impl<S, B> fmt::Debug for LimitFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitFuture").finish_non_exhaustive()
    }
}
