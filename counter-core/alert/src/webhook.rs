//! Delivery of alerts and reports to an address of the web, signed.
//!
//! A [`Webhook`] is what a [`Watch`](crate::Watch) delivers with. Messages that it cannot deliver stay in the
//! store, and are tried again by whichever process is next.
//!
//! ```no_run
//! use counter_alert::{AlertRule, Watch};
//! use counter_core::{Counters, MemoryStore, Precision};
//! use counter_alert::webhook::{Webhook, WebhookBody};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, minute) = (MemoryStore::new(), Precision::try_from(60)?);
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
//! With a [secret](Webhook::secret), a request has the headers of [Standard Webhooks](https://www.standardwebhooks.com):
//! `webhook-id`, which is the same in every repetition and by which a receiver drops them, `webhook-timestamp` in Unix seconds,
//! and `webhook-signature`, an HMAC-SHA256 over both and the body. Libraries for receivers exist in most languages; they
//! refuse old times, so that nobody can send a message again later. Without a secret the first two are sent.

mod secret;
mod body;
#[allow(clippy::module_inception, reason = "the `Webhook` itself, beside what it sends")]
mod webhook;

pub use body::WebhookBody;
pub use webhook::{Webhook, WebhookError};
