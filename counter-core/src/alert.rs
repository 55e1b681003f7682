//! Alerts: rules about counters, looked at in every bucket that closes, and told once over all instances.
//!
//! A [`Watch`] is a future beside those that flush and clean. Any number of processes may run one over the same store:
//! the state of the rules is one document there, which is replaced only by a process that has seen it, so a bucket is
//! judged once, and an alert is raised once. What is to be told is in that document as well, and is claimed for a minute
//! by the process that tells it. If that process ends before the receiver has answered, another tells it again, under the
//! same [`Alert::id`], by which a receiver drops what it has already.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use counter_core::alert::{AlertRule, Message, Watch};
//! use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, minute) = (MemoryStore::new(), Precision::try_from(60)?);
//! let mut counters = Counters::builder(store.clone()).build()?;
//! let errors = AlertRule::share_above("errors", ["status:5xx".parse()?], "hits".parse()?, minute, 0.05);
//!
//! let told = Arc::new(Mutex::new(Vec::new()));
//! let inbox = Arc::clone(&told);
//! let deliver = move |message: Message| {
//!     inbox.lock().unwrap().push(message.to_string());
//!     async { Ok(()) }
//! };
//! let mut watch = Watch::builder(counters.stats(), store).rule(errors).deliver(deliver).build()?;
//!
//! let (recorder, now) = (counters.recorder(), Timestamp::now());
//! let last_minute = minute.bucket(now).start.minus(60);
//! recorder.record_at(recorder.counter("hits"), None, last_minute, 10.try_into()?);
//! recorder.record_at(recorder.counter("status:5xx"), None, last_minute, 1.try_into()?);
//! counters.flush().await?;
//! watch.check_once(minute.bucket(now).start.plus(Watch::LATENESS.as_secs())).await?;
//! assert_eq!(*told.lock().unwrap(), ["warning: errors: status:5xx are 10 % of hits, above 5 %"]);
//! # Ok(())
//! # }
//! ```

mod severity;
mod unit;
mod isolated;
mod expected;
mod verdict;
mod local;
mod condition;
mod rule;
mod config;
#[allow(clippy::module_inception, reason = "the `Alert` itself, beside what raises it")]
mod alert;
mod explanation;
mod history;
mod state;
mod schedule;
mod report;
mod html;
mod message;
mod shared;
mod due;
mod needed;
mod expectation;
mod judge;
mod delivery;
mod progress;
mod alerts;
mod settings;
mod watch;
mod builder;

pub use alert::{Alert, AlertKind};
pub use alerts::{Alerts, AlertsStatus, RuleStatus, SilenceError};
pub use builder::WatchBuilder;
pub use delivery::{Deliver, DeliveryError};
pub use explanation::Explanation;
pub use history::{Arrival, HistoryEntry};
pub use message::Message;
pub use report::{Change, Report, Row};
pub use rule::{AlertRule, RuleError};
pub use schedule::ReportSchedule;
pub use severity::Severity;
pub use unit::Unit;
pub use watch::{Checked, Watch};
