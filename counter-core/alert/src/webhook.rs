//! Delivery of alerts and reports via HTTP, with signatures.
//!
//! You can pass a [`Webhook`] to a [`Watch`](crate::Watch). If a message can't be delivered, it stays in the
//! store and will be retried by the next watch.
//!
//! ```no_run
//! use counter_alert::{AlertRule, Watch};
//! use counter_core::{Counters, MemoryStore, Precision};
//! use counter_alert::webhook::{Webhook, WebhookBody};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, minute) = (MemoryStore::new(), Precision::MINUTE);
//! let counters = Counters::builder(store.clone()).build()?;
//! let errors = AlertRule::share_above("errors", ["status:5xx".parse()?], "hits".parse()?, minute, 0.05);
//! let chat = Webhook::new("https://chat.example.com/hooks/x1y2z3")?.body(WebhookBody::Slack);
//! let watch = Watch::builder(counters.stats(), store).rule(errors).deliver(chat).build()?;
//! # let _ = watch;
//! # Ok(())
//! # }
//! ```
//!
//! # Signatures
//!
//! If you set a [secret](Webhook::secret), requests will include the headers defined by [Standard
//! Webhooks](https://www.standardwebhooks.com):
//!
//! - `webhook-id`: stays the same if a message is delivered again, so that receivers can drop duplicates
//! - `webhook-timestamp`: in Unix seconds
//! - `webhook-signature`: an HMAC-SHA256 over the id, the timestamp and the body
//!
//! Libraries for receivers exist in various languages. They reject old timestamps to prevent replay attacks.
//! If you don't set a secret, only the id and the timestamp will be sent.

mod secret;
mod body;
#[allow(clippy::module_inception, reason = "the main type of this module")]
mod webhook;

pub use body::WebhookBody;
pub use webhook::{Webhook, WebhookError};
