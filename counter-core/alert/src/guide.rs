//! Alerts and reports: rules to start with, delivery guarantees, and advice for receivers.
//!
//! A [`Watch`] is a background future, like the flusher and the cleaner. You can run a watch in all
//! instances. Watches share their state via the store, so a bucket will be evaluated once and an alert will
//! be sent once.
//!
//! ```
//! use std::time::Duration;
//! use counter_alert::{AlertRule, ReportSchedule, Severity, Watch};
//! use counter_core::{Counters, MemoryStore, Precision};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, minute) = (MemoryStore::new(), Precision::MINUTE);
//! let counters = Counters::builder(store.clone()).build()?;
//! let errors = ["status:5xx".parse()?, "status:failed".parse()?];
//! let watch = Watch::builder(counters.stats(), store)
//!     .rule(
//!         AlertRule::share_above("errors", errors.clone(), "hits".parse()?, minute, 0.05)
//!             .at_least(20)
//!             .raise_after(2)
//!             .resolve_after(5)
//!             .severity(Severity::Critical),
//!     )
//!     .rule(AlertRule::store_away("store", Duration::from_secs(30)))
//!     .report(ReportSchedule::daily("daily", "hits".parse()?).share("errors", errors))
//!     .build()?;
//! # let _ = watch;
//! # Ok(())
//! # }
//! ```
//!
//! You need to spawn [`Watch::run`] and to provide a [`Deliver`](crate::Deliver), i.e. a closure or the
//! `Webhook` of the feature `webhook`.
//!
//! # Rules
//!
//! | to detect | rule |
//! |---|---|
//! | errors, bots or missing pages as a share of all requests | [`share_above`](AlertRule::share_above), with a minimum number of requests via [`at_least`](AlertRule::at_least) |
//! | slow or large responses | [`quantile_above`](AlertRule::quantile_above), if you record [distributions](counter_core::guide::distributions) |
//! | more or fewer hits than a fixed number | [`above`](AlertRule::above), [`below`](AlertRule::below), [`silent`](AlertRule::silent) |
//! | more or fewer hits than expected for the time of day and week | [`unusual`](AlertRule::unusual), [`unusually_high`](AlertRule::unusually_high), [`unusually_low`](AlertRule::unusually_low) |
//! | a route that has gone quiet | [`unexpectedly_silent`](AlertRule::unexpectedly_silent) |
//! | unused routes | [`dead`](AlertRule::dead), with one rule for each route |
//! | a new referrer, campaign or consumer in the top list | [`new_label`](AlertRule::new_label) |
//! | an unavailable store, a growing backlog, a wrong clock, a log that is not followed, an archive that differs | [`store_away`](AlertRule::store_away), [`pending_above`](AlertRule::pending_above), [`clock_skew_above`](AlertRule::clock_skew_above), [`source_behind`](AlertRule::source_behind), [`archive_differs`](AlertRule::archive_differs) |
//!
//! A bucket is evaluated [15 s](Watch::LATENESS) after the bucket end. You can change this via
//! [`lateness`](crate::WatchBuilder::lateness). The watch uses the earlier of the process time and the store
//! time. If a bucket can't be read or has too few hits, this will not raise or resolve an alert. A watch that
//! was stopped for a long time will catch up on the latest 60 buckets.
//!
//! **Hits that are still being sent do not raise alerts.** A watch writes a mark into the store: the instant
//! up to which the store has all hits of this process. A bucket will be evaluated when the marks of all live
//! processes are past the bucket end, so that after an outage, the flushers can send their hits before this
//! happens. The wait is bounded:
//!
//! - A process is considered live for 30 s after the latest mark, or for three watch intervals if this is
//!   longer. Thus a killed process will delay alerts by this time. A watch that is shut down removes the
//!   mark, and does not delay anything.
//! - When the store is back, a bucket will wait for no more than a minute.
//! - A bucket that is evaluated while hits are still missing will not be used to train a detector.
//! - If a process records hits but does not run a watch, buckets will not wait for it. You should choose a
//!   lateness longer than the flush interval of this process.
//!
//! An alert is raised when the condition is met for [`raise_after`](AlertRule::raise_after) buckets in a row,
//! and resolved when it is not met for [`resolve_after`](AlertRule::resolve_after) buckets. To limit how
//! often a rule can be raised, use [`pause`](AlertRule::pause). You should start with buckets of a minute,
//! `raise_after(2)` and `resolve_after(5)`: a single bad minute will not raise an alert, and alerts will not
//! flap.
//!
//! Process rules are checked by all processes in all passes, i.e. every 10 s. These alerts do not need the
//! store. If a problem affects multiple processes, you will receive one alert from each, with different ids.
//!
//! # Expectations
//!
//! Rules on unusual values use one [`Detector`](crate::detector::Detector) for each counter, which lives in
//! the process and takes ~8 KB. It predicts a bucket from the time of day, the time of the week (if the store
//! has enough history) and the latest buckets. The band excludes 1 in 250,000 ordinary buckets on either
//! side, and values that deviate as much as is expected once in eight weeks, or once in 1,000 buckets if that is
//! longer. You can change both via [`false_alarms`](AlertRule::false_alarms). The band contains errors that
//! repeat, i.e. that were exceeded in 1 of 1,000 buckets.
//!
//! - **A message is a sentence** with the count, the time in UTC, and the usual range: `views: 2,310 hits
//!   between 09:00 and 10:00 UTC, usually 900 to 1,400`.
//! - **The history is read when a watch starts**: up to 1,000 buckets and, if these are finer than an hour,
//!   the hours of up to five weeks prior to this. An [archive](counter_core::guide::archive) can provide
//!   these. The default retention keeps five days of hours, which is enough for a daily season, but not for a
//!   weekly season. A pass can initialize 250 counters. Rules on other counters need to wait, but will not
//!   skip a bucket.
//! - **From then on, a bucket is read once.** Models are never refitted. Processes learn independently, so
//!   their bands may differ slightly. As with all rules, the verdict of the fastest process counts.
//! - **A new level**, e.g. due to a deploy, raises an alert once. The level will be adopted after eight
//!   buckets or fewer. If it returns to the old level within a day, this will not raise an alert.
//! - **Gaps**: if the store does not respond for two or more buckets, these buckets and the next three will
//!   not be evaluated. A new counter is evaluated from the 31st bucket.
//! - **Holidays** can be excluded via [`holidays`](crate::WatchBuilder::holidays). They will not be used for
//!   training, and will not raise alerts.
//! - **Low counts** vary a lot: 0 instead of 2 is not unusual. `unexpectedly_silent` therefore adds up the
//!   hits expected since the most recent hit, and compares this to recent silences. To detect a slow decline,
//!   you should also add a rule on hours, because the level will adapt to changes across multiple buckets.
//!
//! # Delivery
//!
//! - A message is stored atomically with the verdict, and will be removed when the receiver has accepted it.
//!   So messages arrive at least once, even with crashes, pauses, failovers and receiver outages.
//! - The message [id](crate::Message::id) stays the same if a message is delivered again, even if a bucket is
//!   evaluated again due to a failover. If a receiver drops known ids, it will process a message exactly
//!   once.
//! - A process has a minute to deliver a message, and then another process may try. Failed deliveries are
//!   retried after 10 s, 20 s, 40 s and so on, up to an interval of ten minutes. If there are more than 1,000
//!   messages, the oldest will be dropped and an error logged.
//! - If a delivery fails, messages can arrive out of order. You can sort alerts by the `start` of the bucket.
//!
//! Messages from process rules are held in memory. If the process is killed, undelivered messages will be
//! lost.
//!
//! Watches on the same store can have different rules for some time, as in a rolling deployment. A watch only
//! evaluates the rules it is configured with, and up to 100 in the [store](Alerts::add). If a rule is not evaluated for 7
//! days, the rule state will be removed.
//!
//! # State, silences and tests
//!
//! [`Watch::alerts`] returns a handle to read the state of all rules: the raised alerts, the time they were
//! raised, the deciding buckets, and the latest 500 alerts with the delivery state. This is a single exchange
//! with the store. If a process does not run a watch, you can create a [handle](Alerts) from the same rules.
//! The admin router in `counter-admin` uses it for the API, the metrics and the dashboard, which also shows
//! alerts in the counter charts.
//!
//! You can [silence](Alerts::silence) a rule from any process for up to 30 days. Silenced rules are still
//! evaluated, but will not send messages. When the silence ends, receivers will get a message if they missed
//! a change, i.e. if the alert is now raised, or if an alert they have received is now resolved. Deliveries
//! already in progress are not canceled.
//!
//! A [test](Alerts::test) is a normal message with the kind [`Test`](crate::AlertKind::Test). It will be
//! delivered by the next pass of a watch, and you can find the delivery time in the history. Receivers may
//! ignore it.
//!
//! If the data for a rule can't be read, e.g. because a site of a [fleet](counter_core::fleet) is away, the rule is not
//! evaluated for these buckets, and its state is unknown. A message of the kind [`Unknown`](crate::AlertKind::Unknown) says
//! so once for all rules, with the reason, and another one when all rules are evaluated again.
//!
//! # Reports
//!
//! A [`ReportSchedule`](crate::ReportSchedule) sends a report for past days or weeks, once for all instances
//! and, if you configure it, in local time. A report contains hits, visitors, shares, pages, labels, the
//! largest changes, and the alerts. Like an alert it is sent as a message: text for a chat, an object for
//! programs, and [`html`](crate::Report::html) for a mail. If no process is running when a report is due, the
//! report will be sent late, and only for the latest day or week.
//!
//! If a key or a label can't be read, the report will be sent without this part, which is listed in
//! [`unread`](crate::Report::unread). Only if the store can't be reached, we retry the whole report after
//! five minutes. If no precision matches the local day, the report will use the nearest bucket boundaries,
//! e.g. UTC days for a week in Tokyo. In this case the title includes the actual range.

#[cfg(doc)]
use super::{
    rules::rule::AlertRule,
    watch::{alerts::Alerts, watch::Watch},
};
