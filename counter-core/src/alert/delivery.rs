use std::error::Error;
use std::time::Duration;

use tokio::time::timeout;

use super::Message;
use crate::family::future::BoxFuture;
use crate::log::unwind::{Panicked, caught, tell};

/// The time that a delivery may take.
const DELIVERY: Duration = Duration::from_secs(30);

/// The time that the deliveries of a pass may take, well below that of a claim.
const DELIVERIES: Duration = Duration::from_secs(40);

/// A reason why a message could not be delivered, for the log.
pub type DeliveryError = Box<dyn Error + Send + Sync>;

/// A way to tell people, or another program. A closure that returns a future is one.
///
/// A message is delivered at least once: after an error, and where the process that delivers it ends meanwhile, it is
/// delivered again with the same [`id`](Message::id).
pub trait Deliver: Send + Sync + 'static {
    /// Delivers a message. A call that takes longer than 30 s is given up.
    ///
    /// # Errors
    /// Fails when it is not known that the message has arrived; it will be delivered again.
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

/// Delivers messages one after the other; returns the ids of those that have arrived.
pub(super) async fn delivered(deliver: &dyn Deliver, messages: &[Message]) -> Vec<String> {
    let mut arrived = Vec::new();
    let deliveries = async {
        for message in messages {
            let id = message.id();
            let delivery =
                async { deliver.deliver(message).await.map_err(|error| Undelivered(error.to_string())) };
            match timeout(DELIVERY, caught(delivery)).await {
                Ok(Ok(())) => arrived.push(id.to_owned()),
                Ok(Err(Undelivered(reason))) => {
                    tell(|| tracing::warn!(id, reason, "a message was not delivered"));
                }
                Err(_) => tell(|| tracing::warn!(id, "the delivery of a message takes too long")),
            }
        }
    };
    _ = timeout(DELIVERIES, deliveries).await;
    arrived
}

/// The reason why a message has not arrived: that of the receiver, or a panic.
struct Undelivered(String);

impl From<Panicked> for Undelivered {
    fn from(panicked: Panicked) -> Self {
        Self(panicked.to_string())
    }
}
