use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use counter_core::document::{Document, DocumentStore};
use counter_core::internal::{Passes, tell, until};
use counter_core::visits::{Stats, WriterId};
use counter_core::{Error, Timestamp};
use futures_util::future::BoxFuture;
use futures_util::future::{join, try_join};
use tokio::time::timeout;

use super::alerts::Alerts;
use super::delivery::{Deliver, delivered};
use super::due::Due;
use super::expectation::Expectations;
use super::judge::Values;
use super::progress::{self, Closed, Progress};
use super::shared::{DOCUMENT, Shared};
use super::state::Decision;
use crate::message::Message;
use crate::reports::report::Report;
use crate::reports::schedule::ReportSchedule;
use crate::rules::condition::Condition;
use crate::rules::rule::AlertRule;

/// A background future that judges rules and reports each change once over all processes.
pub struct Watch {
    stats: Stats,
    store: Arc<dyn DocumentStore>,
    rules: Arc<[AlertRule]>,
    reports: Vec<ReportSchedule>,
    deliver: Arc<dyn Deliver>,
    interval: Duration,
    lateness: Duration,
    /// The reports that could be made, and the instant before which no other is tried after one that could not.
    reporting: Passes,
    no_report_before: Timestamp,
    /// The name of this watch in claims.
    holder: String,
    /// The states of the rules about this process, and their messages.
    own: Arc<Mutex<Shared>>,
    expectations: Expectations,
    progress: Progress,
    /// The shared state as of the last read.
    known: Option<Seen>,
}

/// The settings of a watch.
pub(super) struct Settings {
    pub(super) stats: Stats,
    pub(super) store: Arc<dyn DocumentStore>,
    pub(super) rules: Vec<AlertRule>,
    pub(super) reports: Vec<ReportSchedule>,
    pub(super) deliver: Arc<dyn Deliver>,
    pub(super) interval: Duration,
    pub(super) lateness: Duration,
    /// The times that are not compared with others.
    pub(super) holidays: Vec<Range<Timestamp>>,
}

/// What all watches shared at one instant.
#[derive(Clone)]
struct Seen {
    version: u64,
    now: Option<Timestamp>,
    shared: Arc<Shared>,
}

/// The outcome of a pass of a [`Watch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The buckets that were judged, over all rules that are not about the process.
    pub judged: u64,
    /// The messages that a receiver has taken.
    pub delivered: u64,
    /// The messages that could not be delivered, and will be tried again.
    pub undelivered: u64,
}

/// The seconds after which a report that could not be made is tried again.
const AGAIN: u64 = 300;

/// The time that the end of a watch may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The seconds after which a report that no watch makes is forgotten.
const FORGOTTEN: u64 = 30 * 86_400;

impl Watch {
    /// The time after the end of a bucket at which it is judged by default: until then, hits may be on their way.
    pub const LATENESS: Duration = Duration::from_secs(15);

    pub(super) fn new(settings: Settings) -> Self {
        let Settings { stats, store, rules, reports, deliver, interval, lateness, holidays } = settings;
        let holder = WriterId::random().to_string();
        Self {
            stats,
            store,
            rules: rules.into(),
            reports,
            deliver,
            interval,
            lateness,
            reporting: Passes::of("the reports"),
            no_report_before: Timestamp::MIN,
            own: Arc::default(),
            expectations: Expectations::new(holidays),
            progress: Progress::new(holder.clone(), interval),
            holder,
            known: None,
        }
    }

    /// Returns a handle on the rules of this watch and their state, for pages and programs.
    #[must_use]
    pub fn alerts(&self) -> Alerts {
        Alerts::over(Arc::clone(&self.store), Arc::clone(&self.rules), Arc::clone(&self.own))
    }

    /// Judges the buckets that closed since the last pass of any watch, and delivers the messages.
    ///
    /// The time is the earlier of `now` and that of the store's clock. Rules about the process come first. A bucket is judged
    /// when the processes whose watches were live lately have brought their hits up to its end into the store, or after a
    /// minute.
    ///
    /// # Errors
    /// Fails when the store fails; the next pass does the rest. A failed delivery is not an error.
    ///
    /// # Cancel safety
    /// A message that was under way is delivered again, by this watch or another one.
    pub async fn check_once(&mut self, now: Timestamp) -> Result<Checked, Error> {
        let checked = self.check(now).await;
        if checked.is_err() {
            self.progress.fail();
        }
        checked
    }

    async fn check(&mut self, now: Timestamp) -> Result<Checked, Error> {
        let store = Arc::clone(&self.store);
        // In one exchange.
        let (mut seen, marks) = join(self.read(), store.read(progress::DOCUMENT)).await;
        if let Ok(seen) = &seen {
            self.take_silences(&seen.shared, now);
        }
        let mut checked = self.check_process(now).await;
        if checked != Checked::default() {
            // That took a while.
            seen = self.read().await;
        }
        let (seen, marks) = (seen?, marks?);
        let (now, held_for) = (seen.now.map_or(now, |of_store| of_store.min(now)), self.held_for(now));
        let end = now.minus(self.lateness.as_secs());
        let (mark, closed) = self.progress.mark(&marks, now.minus(held_for), end, now);
        let mut shared = Shared::clone(&seen.shared);
        shared.end_silences(now);
        let judged = self.judge(&mut shared, closed, now);
        let (judged, ()) = try_join(judged, mark.write(&*store, marks)).await?;
        // A report waits for hits as well.
        self.report(&mut shared, closed.end.plus(self.lateness.as_secs())).await;
        let claimed = shared.claim(&self.holder, now);
        if shared == *seen.shared {
            return Ok(checked);
        }
        let Some(version) = store.replace(DOCUMENT, seen.version, &shared.encode()).await? else {
            // Another watch was first, and has what there was to do.
            return Ok(checked);
        };
        checked.judged = judged;
        if claimed.is_empty() {
            self.known = Some(Seen { version, now: None, shared: Arc::new(shared) });
            return Ok(checked);
        }
        let arrived = delivered(&*self.deliver, &claimed).await;
        checked.count(&claimed, &arrived);
        shared.settle(&self.holder, &arrived, now);
        match store.replace(DOCUMENT, version, &shared.encode()).await? {
            Some(version) => self.known = Some(Seen { version, now: None, shared: Arc::new(shared) }),
            // Another watch has replaced it since.
            None => self.alerts().change(|shared, _| shared.settle(&self.holder, &arrived, now)).await?,
        }
        Ok(checked)
    }

    /// Reads what all watches share: with a thousand rules it is large, so it is read only if it has changed.
    async fn read(&mut self) -> Result<Seen, Error> {
        let read = match &self.known {
            Some(known) => self.store.read_newer(DOCUMENT, known.version),
            None => self.store.read(DOCUMENT),
        };
        let Document { version, content, now, .. } = read.await?;
        let shared = match &self.known {
            Some(known) if known.version == version => Arc::clone(&known.shared),
            _ => Arc::new(Shared::decode(&content)?),
        };
        let seen = Seen { version, now, shared };
        self.known = Some(seen.clone());
        Ok(seen)
    }

    /// Makes a pass at every interval until `shutdown` completes.
    ///
    /// An error does not end the loop; it is logged when failures begin and again when they end.
    ///
    /// It ends within a second after `shutdown`.
    ///
    /// # Cancel safety
    /// As with [`check_once`](Self::check_once).
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        until(shutdown, self.check_for_ever()).await;
        // Otherwise the watches of other processes wait for this one until its mark ends.
        _ = timeout(LEAVE_TIMEOUT, self.progress.leave(&*self.store)).await;
    }

    fn check_for_ever(&mut self) -> BoxFuture<'_, ()> {
        Passes::of("the watch over alerts").repeat(self.interval, self, |watch| {
            Box::pin(async move {
                let checked = watch.check_once(Timestamp::now()).await?;
                tell(|| tracing::debug!(checked.judged, checked.delivered, "watched"));
                Ok(())
            })
        })
    }

    /// Judges the rules about this process and delivers their messages, without the store.
    async fn check_process(&mut self, now: Timestamp) -> Checked {
        let mut checked = Checked::default();
        let claimed = self.judge_process(now);
        if !claimed.is_empty() {
            let arrived = delivered(&*self.deliver, &claimed).await;
            checked.count(&claimed, &arrived);
            self.own().settle(&self.holder, &arrived, now);
        }
        checked
    }

    /// Judges the rules about this process; returns the messages to deliver now.
    fn judge_process(&self, now: Timestamp) -> Vec<Message> {
        let mut own = self.own();
        own.end_silences(now);
        for rule in &*self.rules {
            let Some(condition) = rule.local() else { continue };
            let state = own.rules.entry(rule.name.clone()).or_default();
            if let Some(mut decision) = state.see(rule, now, condition.judge(&self.stats)) {
                // Each process reports its own alerts.
                decision.alert.id = format!("{}:{}", decision.alert.id, self.holder);
                state.decision = Some(decision.clone());
                own.decide(decision, now);
            }
        }
        own.claim(&self.holder, now)
    }

    /// Copies the silences of the rules about processes from the document, so that they hold while the store is unavailable.
    fn take_silences(&self, shared: &Shared, now: Timestamp) {
        let mut own = self.own();
        for rule in self.rules.iter().filter(|rule| rule.local().is_some()) {
            let silenced = shared.rules.get(&rule.name).and_then(|state| state.silenced);
            let state = own.rules.entry(rule.name.clone()).or_default();
            if silenced.is_some() {
                state.silenced = silenced;
            } else if state.silenced.is_some() {
                own.end_silence(&rule.name, now);
            }
        }
    }

    fn own(&self) -> MutexGuard<'_, Shared> {
        self.own.lock().expect("nothing panics under this lock")
    }

    /// Returns the age in seconds of the oldest bucket that has unsent hits in this process.
    fn held_for(&self, now: Timestamp) -> u64 {
        self.stats.held_since(now).map_or(0, |since| now.as_unix().saturating_sub(since.as_unix()))
    }

    /// Judges the buckets that can be judged; returns their number.
    async fn judge(&mut self, shared: &mut Shared, closed: Closed, now: Timestamp) -> Result<u64, Error> {
        let expectations = &mut self.expectations;
        let rules: BTreeMap<_, _> =
            self.rules.iter().filter(|rule| rule.local().is_none()).map(|rule| (&*rule.name, rule)).collect();
        // Other versions of the program, side by side with this one, may have rules that it does not have.
        let is_known = |name: &str| self.rules.iter().any(|rule| rule.name == name);
        shared.rules.retain(|name, state| is_known(name) || !state.is_forgotten(now));
        expectations.complete = closed.complete;
        let state = |rule: &AlertRule| shared.rules.get(&rule.name);
        let mut due: Vec<_> =
            rules.values().filter_map(|rule| Due::of(rule, state(rule), closed.end)).collect();
        expectations.begin(&self.stats, &due).await?;
        due.retain(|due| expectations.has_begun(due.rule));
        let values = Values::read(&self.stats, &due, expectations).await?;
        let mut count = 0;
        for due in &due {
            let mut decisions: Vec<Decision> = Vec::new();
            let state = shared.rules.entry(due.rule.name.clone()).or_default();
            for start in due.starts() {
                let verdict = match due.rule.condition {
                    Condition::Unusual { .. } => expectations.verdict(due.rule, start),
                    _ => values.verdict(due.rule, start, state),
                };
                decisions.extend(state.see(due.rule, start, verdict));
                count += 1;
            }
            decisions.into_iter().for_each(|decision| shared.decide(decision, now));
        }
        Ok(count)
    }

    /// Makes the reports of days and weeks that are over.
    async fn report(&mut self, shared: &mut Shared, now: Timestamp) {
        let is_known = |name: &str| self.reports.iter().any(|schedule| schedule.name() == name);
        shared.reports.retain(|name, end| is_known(name) || now.minus(FORGOTTEN).as_unix() < *end);
        if now < self.no_report_before {
            return;
        }
        for schedule in &self.reports {
            let Some(period) = schedule.period(self.stats.grid(), now) else { continue };
            let end = period.range.end.as_unix();
            // The first report is of the first period that ends while there is a watch.
            let last = *shared.reports.entry(schedule.name().to_owned()).or_insert(end);
            if last >= end {
                continue;
            }
            let alerts = shared.raised_in(&period.range);
            let report = Report::read(&self.stats, schedule, &period, alerts);
            // Alerts do not wait for a report that cannot be made.
            match self.reporting.make(report).await {
                Some(report) => {
                    shared.reports.insert(schedule.name().to_owned(), end);
                    shared.push(Message::Report(report));
                }
                None => self.no_report_before = now.plus(AGAIN),
            }
        }
    }
}

impl Checked {
    fn count(&mut self, claimed: &[Message], arrived: &[String]) {
        self.delivered += arrived.len() as u64;
        self.undelivered += (claimed.len() - arrived.len()) as u64;
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("rules", &self.rules).finish_non_exhaustive()
    }
}
