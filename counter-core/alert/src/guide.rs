//! Alerts and reports: rules to start with, delivery guarantees, and advice for receivers.
//!
//! A [`Watch`] is a background future, like the flusher and the cleaner. Every instance may run one. Watches share their state
//! in the store, so each bucket is judged once and each alert is sent once.
//!
//! ```
//! use std::time::Duration;
//! use counter_alert::{AlertRule, ReportSchedule, Severity, Watch};
//! use counter_core::{Counters, MemoryStore, Precision};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, minute) = (MemoryStore::new(), Precision::try_from(60)?);
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
//! The application spawns [`Watch::run`], and gives it a [`Deliver`](crate::Deliver): a closure, or the `Webhook` of
//! the feature `webhook`.
//!
//! # Rules
//!
//! | to learn of | rule |
//! |---|---|
//! | errors, bots or missing pages out of all requests | [`share_above`](AlertRule::share_above), with [`at_least`](AlertRule::at_least) so many requests |
//! | slow or large responses | [`quantile_above`](AlertRule::quantile_above), where [distributions](counter_core::guide::distributions) are kept |
//! | more or fewer hits than a number | [`above`](AlertRule::above), [`below`](AlertRule::below), [`silent`](AlertRule::silent) |
//! | more or fewer hits than usual at this time of day and of the week | [`unusual`](AlertRule::unusual), [`unusually_high`](AlertRule::unusually_high), [`unusually_low`](AlertRule::unusually_low) |
//! | a route that has gone quiet | [`unexpectedly_silent`](AlertRule::unexpectedly_silent) |
//! | routes that nobody uses any more | [`dead`](AlertRule::dead), a rule for each route |
//! | a new referrer, campaign or consumer among the first | [`new_label`](AlertRule::new_label) |
//! | a store that is away, a growing backlog, a wrong clock, a log that is not followed, an archive that differs | [`store_away`](AlertRule::store_away), [`pending_above`](AlertRule::pending_above), [`clock_skew_above`](AlertRule::clock_skew_above), [`source_behind`](AlertRule::source_behind), [`archive_differs`](AlertRule::archive_differs) |
//!
//! A bucket is judged [15 s](Watch::LATENESS) after its end; [`lateness`](crate::WatchBuilder::lateness) changes this.
//! The time is that of the process or of the store, whichever is behind. If a bucket cannot be read or has too few hits, it
//! neither raises nor resolves an alert. After a long pause, a watch catches up with the last 60 buckets.
//!
//! **Hits that are still being sent raise no alert.** Each watch writes a mark into the store: the instant up to which the store
//! has all hits of its process. A bucket is judged when the marks of all live processes are past its end, so the buckets of an
//! outage are judged after the flushers have sent their hits. The wait is bounded:
//!
//! - A process counts as live for 30 s after its last mark, or for three intervals of its watch if that is longer. A killed
//!   process delays alerts by this time. A watch that ends properly removes its mark and delays nothing.
//! - After the store is back, no bucket waits for longer than a minute.
//! - A bucket that is judged before all its hits are in the store does not train a detector.
//! - If a process counts without a watch, no bucket waits for it. Choose a lateness that is longer than the interval of its
//!   flusher.
//!
//! An alert is raised after [`raise_after`](AlertRule::raise_after) buckets in a row and resolved after
//! [`resolve_after`](AlertRule::resolve_after); [`pause`](AlertRule::pause) limits how often a rule is raised. Start with
//! buckets of a minute, `raise_after(2)` and `resolve_after(5)`: then a single bad minute raises no alert, and an alert does
//! not flap.
//!
//! Every process checks its own rules in each pass, every 10 s. It sends their alerts without the store, so several processes
//! with the same problem send one alert each, with different ids.
//!
//! # What is expected
//!
//! Rules about what is unusual have a [`Detector`](crate::detector::Detector) for each counter, in the process, of about 8 KB.
//! It expects a bucket by the time of day and of the week, as far as the store has these, and by the latest buckets; its band
//! leaves out one ordinary bucket in 250,000 on each side, unless [`false_alarms`](AlertRule::false_alarms) says otherwise.
//!
//! - **The history is read when a watch begins**: up to 1,000 buckets, and for buckets finer than an hour the hours of up to
//!   five weeks before these. An [archive](counter_core::guide::archive) has them; with the default retention there are five days of hours,
//!   and so a day, but no week. 250 counters begin in a pass, and the rules about the others wait for theirs; no bucket is lost.
//! - **After that a bucket is read once.** Nothing is fitted anew. Each process learns for itself, so two may differ a little
//!   in their bands; the one that judges a bucket first decides, as with all rules.
//! - **A new level**, such as after a deploy, is one alert: the level follows, after eight buckets at the latest. A return to
//!   the level before, within a day, is none.
//! - **Gaps** of two buckets and more, in which the store did not answer, are not judged, nor are the three buckets after one.
//!   A counter that is new is judged from its 31st bucket on.
//! - **Holidays** are times that [`holidays`](crate::WatchBuilder::holidays) leaves out: they teach nothing, and raise
//!   nothing.
//! - **Few hits** say little: 0 instead of 2 is nothing unusual. `unexpectedly_silent` adds up what was missed since the last
//!   hit, and compares it with the silences of late. For a slow decline choose a rule on hours beside that on minutes, since the
//!   level follows what changes over many buckets.
//!
//! # Delivery
//!
//! - A message is stored together with the verdict that caused it, and is removed when the receiver has accepted it. So every
//!   message arrives at least once, despite crashes, pauses, failovers and outages of the receiver.
//! - The [id](crate::Message::id) of a message is the same in every repetition, even if a failover made the watches judge
//!   a bucket again. A receiver that drops known ids gets each message exactly once.
//! - A process has a minute to deliver a message; then another process may try. After a failure, the delivery is retried after
//!   10 s, 20 s, 40 s and so on, and finally every ten minutes. Up to 1,000 messages are kept; if there are more, the oldest is
//!   dropped with an error in the log.
//! - After failures, messages may arrive out of order. Use the `start` of the alert's bucket to sort them.
//!
//! The messages of rules about the process are kept in the process. If it is killed, undelivered messages are lost.
//!
//! Watches of one store may have different rules for a while, for example during a rolling deployment. Each judges its own
//! rules. The state of a rule is removed if no watch has judged it for 7 days.
//!
//! # State, silences and tests
//!
//! [`Watch::alerts`] returns a handle that reads the state of all rules with one read of the store: which alerts are raised,
//! since when, the buckets that caused them, and the last 500 alerts with their delivery. A process without a watch can create
//! a [handle](Alerts) from the same rules. The admin router of `counter-layer` uses it for the API, the metrics and the
//! dashboard, which shows alerts in the charts of their counters.
//!
//! Any process can [silence](Alerts::silence) a rule for up to 30 days. A silenced rule is still judged, but sends nothing. When
//! the silence ends, at most one message is sent: that the alert is raised, or that an alert is resolved which was reported
//! before the silence. A delivery that was in progress when the silence began is finished.
//!
//! A [test](Alerts::test) is an ordinary message of the kind [`Test`](crate::AlertKind::Test). The next pass of a watch
//! delivers it, and the history shows when it arrived. A receiver may drop it.
//!
//! # Reports
//!
//! A [`ReportSchedule`](crate::ReportSchedule) sends a report on every past day or week, once for all instances and in the
//! local time of the site if you configure it: hits, visitors, shares, pages, labels, the largest changes, and the alerts. It is
//! an ordinary message: text for a chat, an object for programs, and [`html`](crate::Report::html) for a mail. If no
//! process was running when a report was due, it is sent late, and only for the last day or week.
//!
//! If a key or a label cannot be read, the report leaves out this part and names it in
//! [`unread`](crate::Report::unread). Only if the store cannot be reached, the whole report is retried after five minutes.
//! If no precision has buckets that begin with the days of the site, the report reads the nearest ones: a week in Tokyo is read
//! from days of UTC, for example. Then the title contains the range that was read.

#[cfg(doc)]
use super::{
    rules::rule::AlertRule,
    watch::{alerts::Alerts, watch::Watch},
};
