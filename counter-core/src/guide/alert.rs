//! Alerts and reports: which rules to begin with, what is promised, and what a receiver does.
//!
//! A [`Watch`] is a future beside those that flush and clean. Every instance may run one: they share what they know in the
//! store, so a bucket is judged once, whoever is first, and an alert has one message.
//!
//! ```
//! use std::time::Duration;
//! use counter_core::alert::{AlertRule, ReportSchedule, Severity, Watch};
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
//! The application spawns [`Watch::run`], and gives it a [`Deliver`](crate::alert::Deliver): a closure, or the `Webhook` of
//! `counter-layer`.
//!
//! # Rules
//!
//! | to learn of | rule |
//! |---|---|
//! | errors, bots or missing pages out of all requests | [`share_above`](AlertRule::share_above), with [`at_least`](AlertRule::at_least) so many requests |
//! | slow or large responses | [`quantile_above`](AlertRule::quantile_above), where [distributions](super::distributions) are kept |
//! | more or fewer hits than a number | [`above`](AlertRule::above), [`below`](AlertRule::below), [`silent`](AlertRule::silent) |
//! | more or fewer hits than usual at this time of day and of the week | [`unusual`](AlertRule::unusual), [`unusually_high`](AlertRule::unusually_high), [`unusually_low`](AlertRule::unusually_low) |
//! | a route that has gone quiet | [`unexpectedly_silent`](AlertRule::unexpectedly_silent) |
//! | routes that nobody uses any more | [`dead`](AlertRule::dead), a rule for each route |
//! | a new referrer, campaign or consumer among the first | [`new_label`](AlertRule::new_label) |
//! | a store that is away, a growing backlog, a wrong clock, a log that is not followed, an archive that differs | [`store_away`](AlertRule::store_away), [`pending_above`](AlertRule::pending_above), [`clock_skew_above`](AlertRule::clock_skew_above), [`source_behind`](AlertRule::source_behind), [`archive_differs`](AlertRule::archive_differs) |
//!
//! A bucket is judged [15 s](Watch::LATENESS) after its end, or after the [lateness](crate::alert::WatchBuilder::lateness) of
//! your choice, by this process's clock or the store's, whichever is behind. A bucket that cannot be read, or has too few hits,
//! has no verdict: it neither raises nor resolves. A process that was away for long catches up with the last 60 buckets.
//!
//! **Hits that are still on their way raise no alert.** Each watch marks in the store up to which instant the store has the hits
//! of its process. A bucket is judged when all live processes have passed its end, so the buckets of an outage are judged when
//! the flushers have sent what they held. The wait is bounded: a process counts as live for 30 s after its last mark, or three
//! intervals of its watch, and no bucket waits for more than a minute after the store is back. A process that is killed delays
//! alerts by these 30 s; one that ends its watch delays nothing. Detectors are not trained by a bucket that was judged before
//! all its hits were there. Processes that count without a watch are not waited for: choose a lateness of at least the interval
//! of their flushers.
//!
//! An alert is raised after [`raise_after`](AlertRule::raise_after) buckets in a row and resolved after
//! [`resolve_after`](AlertRule::resolve_after); [`pause`](AlertRule::pause) bounds how often a rule is raised. Begin with
//! minutes, and 2 and 5 of them: a single bad minute tells nobody, and an alert does not flap.
//!
//! The rules about the process are looked at in each pass, every 10 s, by every process for itself. Their alerts are told
//! without the store, so they are as many as there are processes that have the trouble, each with an id of its own.
//!
//! # What is expected
//!
//! Rules about what is unusual have a [`Detector`](crate::forecast::Detector) for each counter, in the process, of about 8 KB.
//! It expects a bucket by the time of day and of the week, as far as the store has these, and by the latest buckets; its band
//! leaves out one ordinary bucket in 250,000 on each side, unless [`false_alarms`](AlertRule::false_alarms) says otherwise.
//!
//! - **The history is read when a watch begins**: up to 1,000 buckets, and for buckets finer than an hour the hours of up to
//!   five weeks before these. An [archive](super::archive) has them; with the default retention there are five days of hours,
//!   and so a day, but no week. 250 counters begin in a pass, and the rules about the others wait for theirs; no bucket is lost.
//! - **After that a bucket is read once.** Nothing is fitted anew. Each process learns for itself, so two may differ a little
//!   in their bands; the one that judges a bucket first decides, as with all rules.
//! - **A new level**, such as after a deploy, is one alert: the level follows, after eight buckets at the latest. A return to
//!   the level before, within a day, is none.
//! - **Gaps** of two buckets and more, in which the store did not answer, are not judged, nor are the three buckets after one.
//!   A counter that is new is judged from its 31st bucket on.
//! - **Holidays** are times that [`holidays`](crate::alert::WatchBuilder::holidays) leaves out: they teach nothing, and raise
//!   nothing.
//! - **Few hits** say little: 0 instead of 2 is nothing unusual. `unexpectedly_silent` adds up what was missed since the last
//!   hit, and compares it with the silences of late. For a slow decline choose a rule on hours beside that on minutes, since the
//!   level follows what changes over many buckets.
//!
//! # What is promised
//!
//! - A message is in the store together with the verdict that made it. It leaves the store only when the receiver has taken
//!   it, so each arrives at least once: over crashes, pauses and failovers, and while the receiver is away.
//! - The [id](crate::alert::Message::id) of a message is the same in every repetition, and also where a failover made the
//!   watches judge a bucket again. A receiver that drops ids it has seen has each message once.
//! - A process has a minute to deliver what it took; then another may. A delivery that fails is tried again after 10 s, 20 s,
//!   40 s and so on, every ten minutes in the end. Up to 1,000 messages wait; the oldest one beyond that is lost, with
//!   an error in the log.
//! - Messages may arrive out of order after failures: the `start` of an alert's bucket tells.
//!
//! Rules about the process keep their messages in the process: what it has not told is gone when it is killed.
//!
//! Watches of one store may have different rules for a while, as versions that are deployed one after the other have. Each
//! judges the rules that it has; what is known of a rule that none has any more is forgotten after 7 days.
//!
//! # State, silences and tests
//!
//! [`Watch::alerts`] returns a handle that reads, by one read of the store, which rules are raised, since when, and by the
//! numbers of which buckets; and the last 500 alerts, each with those numbers, and whether it has arrived. A process that
//! runs no watch makes such a [handle](Alerts) of the same rules. The admin router of `counter-layer` takes it, for its API,
//! its metrics and its pages, which draw alerts into the charts of the counters that their rules look at.
//!
//! A rule can be [silenced](Alerts::silence) for up to 30 days, and by any process for all of them. It is judged all the
//! while, and nothing is told. The end of the silence makes up for what receivers do not know by then, by at most one
//! message: that the alert is raised, under the id that it has had since; or that one is resolved of which they were told. An
//! alert that was told before the silence is not told again. What was under way when the silence began is delivered.
//!
//! A [test](Alerts::test) is a message like others, of the kind [`Test`](crate::alert::AlertKind::Test): the next pass of a
//! watch delivers it, and the history says when it has arrived. A receiver may drop it.
//!
//! # Reports
//!
//! A [`ReportSchedule`](crate::alert::ReportSchedule) makes a report on every day or week that is over, by the clocks of the site where they are
//! given, once over all instances: hits, visitors, shares, pages, labels, what rose and fell, and which alerts there were. It
//! is a message like others: text for a chat, an object for programs, and [`html`](crate::alert::Report::html) for a mail.
//! A report that no process made in time is made late, of the last day or week alone.
//!
//! A key or a label that cannot be read costs that part alone: the report leaves it out and names it in
//! [`unread`](crate::alert::Report::unread). Only a store that cannot be reached delays a report; it is tried again after five
//! minutes. If no precision has buckets that begin with the days of the site, as days of UTC for a week in Tokyo, the report
//! reads the nearest ones, and its title says from when to when.

#[cfg(doc)]
use crate::alert::{AlertRule, Alerts, Watch};
