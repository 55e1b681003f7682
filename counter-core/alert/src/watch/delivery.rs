use std::error::Error;
use std::time::Duration;

use counter_core::internal::{Panicked, catch_panic, emit};
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use crate::message::Message;

/// The timeout for a delivery.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout for all deliveries in a pass. This should be well below the lifetime of a claim.
const PASS_TIMEOUT: Duration = Duration::from_secs(40);

/// The error of a failed delivery, for the log.
pub type DeliveryError = Box<dyn Error + Send + Sync>;

/// A way to deliver messages to people or programs. You can also use a closure that returns a future.
///
/// Messages are delivered at least once. If a delivery fails, or if the process exits during delivery, the
/// message will be delivered again with the same [`id`](Message::id).
pub trait Deliver: Send + Sync + 'static {
    /// Delivers a message. This will be canceled after 30 s.
    ///
    /// # Errors
    /// Fails if the message might not have been delivered. It will be delivered again.
    fn deliver<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<(), DeliveryError>>;
}

impl<F, D> Deliver for F
where
    F: Fn(Message) -> D + Send + Sync + 'static,
    D: Future<Output = Result<(), DeliveryError>> + Send + 'static,
{
    fn deliver<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<(), DeliveryError>> {
        Box::pin(self(message.clone()))
    }
}

/// Delivers messages in order, and returns the ids of delivered messages.
pub(super) async fn delivered(deliver: &dyn Deliver, messages: &[Message]) -> Vec<String> {
    let mut arrived = Vec::new();
    let deliveries = async {
        for message in messages {
            let id = message.id();
            let delivery =
                async { deliver.deliver(message).await.map_err(|error| Undelivered(error.to_string())) };
            match timeout(DELIVERY_TIMEOUT, catch_panic(delivery)).await {
                Ok(Ok(())) => arrived.push(id.to_owned()),
                Ok(Err(Undelivered(reason))) => {
                    emit(|| tracing::warn!(id, reason, "failed to deliver message"));
                }
                Err(_) => emit(|| tracing::warn!(id, "message delivery timed out")),
            }
        }
    };
    _ = timeout(PASS_TIMEOUT, deliveries).await;
    arrived
}

/// The reason for a failed delivery: an error from the receiver, or a panic.
struct Undelivered(String);

impl From<Panicked> for Undelivered {
    fn from(panicked: Panicked) -> Self {
        Self(panicked.to_string())
    }
}
