use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future once and drops it. Returns `None` if it is not ready, e.g. because a scenario stops it at a
/// call.
pub fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
