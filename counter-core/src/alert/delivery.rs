use std::error::Error;

use super::Alert;
use crate::future::BoxFuture;

/// A reason why a message could not be delivered, for the log.
pub type DeliveryError = Box<dyn Error + Send + Sync>;

/// A way to tell people, or another program, of alerts. A closure that returns a future is one.
///
/// A message is delivered at least once: after an error, and where the process that delivers it ends meanwhile, it is
/// delivered again with the same [`id`](Alert::id).
pub trait Deliver: Send + Sync + 'static {
    /// Delivers a message. A call that takes longer than 30 s is given up.
    ///
    /// # Errors
    /// Fails when it is not known that the message has arrived; it will be delivered again.
    fn deliver<'a>(&'a self, alert: &'a Alert) -> BoxFuture<'a, Result<(), DeliveryError>>;
}

impl<F, D> Deliver for F
where
    F: Fn(Alert) -> D + Send + Sync + 'static,
    D: Future<Output = Result<(), DeliveryError>> + Send + 'static,
{
    fn deliver<'a>(&'a self, alert: &'a Alert) -> BoxFuture<'a, Result<(), DeliveryError>> {
        Box::pin(self(alert.clone()))
    }
}
