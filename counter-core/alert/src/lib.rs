//! Alerts, reports, forecasts and notes for the counters of `counter-core`.
//!
//! If more than 5 % of the hits in a minute are errors, this watch sends an alert:
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use counter_alert::{AlertRule, Message, Watch};
//! use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, minute) = (MemoryStore::new(), Precision::MINUTE);
//! let mut counters = Counters::builder(store.clone()).build()?;
//! let (errors, hits) = ("status:5xx".parse()?, "hits".parse()?);
//! let rule = AlertRule::share_above("errors", [errors], hits, minute, 0.05);
//!
//! let sent = Arc::new(Mutex::new(Vec::new()));
//! let inbox = Arc::clone(&sent);
//! let deliver = move |message: Message| {
//!     inbox.lock().unwrap().push(message.to_string());
//!     async { Ok(()) }
//! };
//! let mut watch =
//!     Watch::builder(counters.stats(), store).rule(rule).deliver(deliver).build()?;
//!
//! let (recorder, now) = (counters.recorder(), Timestamp::now());
//! let last_minute = minute.bucket(now).start.minus(60);
//! recorder.record_at(recorder.counter("hits"), None, last_minute, 10.try_into()?);
//! recorder.record_at(recorder.counter("status:5xx"), None, last_minute, 1.try_into()?);
//! counters.flush().await?;
//! watch.check_once(minute.bucket(now).start.plus(Watch::LATENESS.as_secs())).await?;
//! let alert = "warning: errors: status:5xx are 10 % of hits, above 5 %";
//! assert_eq!(*sent.lock().unwrap(), [alert]);
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! A [`Watch`] is a background future, like the flusher and the cleaner. It evaluates rules whenever a bucket
//! closes. You can run a watch in any number of processes over the same store. The rule state is a single
//! document in the store, and a process can only replace this document if it has read the latest version. So
//! a bucket will be evaluated once, and an alert will be raised once.
//!
//! Messages waiting for delivery are also stored in this document. A process must claim a message in order to
//! deliver it, and the claim is valid for a minute. If the process exits before the receiver responds, the
//! message will be delivered by a different process with the same [`Alert::id`], so that the receiver can
//! drop the duplicate.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | this module | rules, watches, messages and reports |
//! | [`detector`] | online detection of unusual values |
//! | [`forecast`] | forecasts of a series, with bands and backtests |
//! | [`note`] | notes on instants, such as deploys, for charts |
//! | `webhook` | delivery of messages via HTTP; needs one of the features below |
//! | [`guide`] | rules to start with, delivery guarantees, and advice for receivers |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `webhook` | the module `webhook`, with a client for HTTP and TLS by rustls on ring |
//! | `webhook-aws-lc-rs` | the same on aws-lc-rs, for applications that use it, so that only one provider is compiled |
//! | `webhook-no-provider` | the same with the provider that the application installs (`CryptoProvider::install_default`) |
//!
//! A provider that is installed for the process is always preferred. We never install one.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod isolated;
mod document;
pub mod note;
pub mod goal;
pub mod forecast;
pub mod detector;
mod alert;
mod rules;
mod reports;
mod message;
mod watch;
#[cfg(feature = "webhook-no-provider")]
pub mod webhook;
pub mod guide;
#[doc(hidden)]
pub mod internal;

pub use alert::{Alert, AlertKind, Severity};
pub use message::Message;
pub use reports::report::{Change, Report, Row};
pub use reports::schedule::ReportSchedule;
pub use rules::rule::{AlertRule, RuleError};
pub use rules::unit::Unit;
pub use watch::alerts::{AddRuleError, Alerts, AlertsStatus, RuleStatus, SilenceError, UnreadData};
pub use watch::builder::WatchBuilder;
pub use watch::delivery::{Deliver, DeliveryError};
pub use watch::history::{Arrival, Explanation, HistoryEntry};
pub use watch::watch::{Checked, Watch};

/// Compiles the README example as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
