use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use counter_core::document::{Document, DocumentStore};
use counter_core::internal::{Passes, emit, until};
use counter_core::visits::{Stats, WriterId};
use counter_core::{Error, Timestamp};
use futures_util::future::{BoxFuture, join, ready, try_join};
use tokio::time::timeout;

use super::alerts::{Alerts, stored_rules};
use super::delivery::{Deliver, delivered};
use super::due::Due;
use super::evaluate::Values;
use super::expectation::Expectations;
use super::progress::{self, Closed, Progress};
use super::shared::{DOCUMENT, Shared};
use super::state::Decision;
use crate::message::Message;
use crate::reports::report::Report;
use crate::reports::schedule::ReportSchedule;
use crate::rules::condition::Condition;
use crate::rules::config::StoredRule;
use crate::rules::rule::AlertRule;

/// A background future that evaluates rules and delivers alerts and reports, once across all processes.
///
/// ```
/// use counter_alert::{AlertRule, Message, Watch};
/// use counter_core::{Counters, MemoryStore, Precision};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new(); // a `RedisStore` in a service
/// let counters = Counters::builder(store.clone()).build()?;
/// let silent = AlertRule::silent("no hits", "hits".parse()?, Precision::try_from(300)?);
/// let mut watch = Watch::builder(counters.stats(), store)
///     .rule(silent)
///     .deliver(async |message: Message| {
///         println!("{message}");
///         Ok(())
///     })
///     .build()?;
/// # let shutdown = async {};
/// watch.run(shutdown).await; // next to the server
/// # Ok(())
/// # }
/// ```
pub struct Watch {
    stats: Stats,
    store: Arc<dyn DocumentStore>,
    /// The rules of the program.
    configured: Arc<[AlertRule]>,
    /// The rules in the store, as of the latest pass.
    stored: Vec<StoredRule>,
    /// The rules to evaluate: those of the program, and those in the store that this process can evaluate.
    rules: Arc<[AlertRule]>,
    /// Logs when the rules in the store can't be read.
    reading: Passes,
    reports: Vec<ReportSchedule>,
    deliver: Arc<dyn Deliver>,
    interval: Duration,
    lateness: Duration,
    /// Logs when reports start to fail, and when they succeed again.
    reporting: Passes,
    /// The time until which reports are not retried after a failure.
    no_report_before: Timestamp,
    /// The random id of this watch, used to claim messages for delivery.
    holder: String,
    /// The states and messages of process rules, which are not shared with other processes.
    local: Arc<Mutex<Shared>>,
    expectations: Expectations,
    progress: Progress,
    /// The latest known version of the shared state.
    cached: Option<Snapshot>,
}

/// The settings from which a [`WatchBuilder`](super::builder::WatchBuilder) creates a watch.
pub(super) struct Settings {
    pub(super) stats: Stats,
    pub(super) store: Arc<dyn DocumentStore>,
    pub(super) rules: Vec<AlertRule>,
    pub(super) reports: Vec<ReportSchedule>,
    pub(super) deliver: Arc<dyn Deliver>,
    pub(super) interval: Duration,
    pub(super) lateness: Duration,
    /// The times to exclude from rules on unusual values.
    pub(super) holidays: Vec<Range<Timestamp>>,
}

/// A version of the state shared by all watches.
#[derive(Clone)]
struct Snapshot {
    version: u64,
    now: Option<Timestamp>,
    shared: Arc<Shared>,
}

/// The result of a [`Watch`] pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The number of evaluated buckets, across all rules except process rules.
    pub judged: u64,
    /// The number of delivered messages.
    pub delivered: u64,
    /// The number of messages that could not be delivered, and will be retried.
    pub undelivered: u64,
}

/// The time in seconds until a failed report is retried.
const REPORT_RETRY_DELAY: u64 = 300;

/// The timeout for removing the progress mark of this watch on shutdown.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The time in seconds to keep the state of a report that is not created by any watch.
const UNUSED_REPORT_TTL: u64 = 30 * 86_400;

impl Watch {
    /// The default time to wait after the end of a bucket, because hits may still be in flight.
    pub const LATENESS: Duration = Duration::from_secs(15);

    pub(super) fn new(settings: Settings) -> Self {
        let Settings { stats, store, rules, reports, deliver, interval, lateness, holidays } = settings;
        let holder = WriterId::random().to_string();
        let rules: Arc<[_]> = rules.into();
        Self {
            stats,
            store,
            configured: Arc::clone(&rules),
            stored: Vec::new(),
            rules,
            reading: Passes::of("the rules in the store"),
            reports,
            deliver,
            interval,
            lateness,
            reporting: Passes::of("the reports"),
            no_report_before: Timestamp::MIN,
            local: Arc::default(),
            expectations: Expectations::new(holidays),
            progress: Progress::new(holder.clone(), interval),
            holder,
            cached: None,
        }
    }

    /// Returns a handle to the rules of this watch and to their state.
    #[must_use]
    pub fn alerts(&self) -> Alerts {
        Alerts::over(Arc::clone(&self.store), Arc::clone(&self.configured), Arc::clone(&self.local))
    }

    /// Evaluates all buckets that closed since the previous pass of any watch, and delivers messages.
    ///
    /// This uses the earlier of `now` and the store time. Process rules are evaluated before anything else. A
    /// bucket will be evaluated if all processes with a live watch have flushed their hits up to the bucket
    /// end, or otherwise after a minute.
    ///
    /// # Errors
    /// Fails if the store fails. The next pass will continue from there. Failed deliveries are not errors.
    ///
    /// # Cancel safety
    /// If a delivery is canceled, the message will be delivered again by this watch or another.
    pub async fn check_once(&mut self, now: Timestamp) -> Result<Checked, Error> {
        let checked = self.check(now).await;
        if checked.is_err() {
            self.progress.fail();
        }
        checked
    }

    async fn check(&mut self, now: Timestamp) -> Result<Checked, Error> {
        let store = Arc::clone(&self.store);
        // We read all of them in a single round trip.
        let (mut snapshot, marks) = join(self.read_with_rules(), store.read(progress::DOCUMENT)).await;
        if let Ok(snapshot) = &snapshot {
            self.copy_silences(&snapshot.shared, now);
        }
        let mut checked = self.check_process(now).await;
        if checked != Checked::default() {
            // This may have taken a while, so we need to read again.
            snapshot = self.read_with_rules().await;
        }
        let (snapshot, marks) = (snapshot?, marks?);
        let (now, held_for) = (snapshot.now.map_or(now, |of_store| of_store.min(now)), self.held_for(now));
        let end = now.minus(self.lateness.as_secs());
        let (mark, closed) = self.progress.mark(&marks, now.minus(held_for), end, now)?;
        let mut shared = Shared::clone(&snapshot.shared);
        shared.end_silences(now);
        let judged = self.evaluate(&mut shared, closed, now);
        let (judged, ()) = try_join(judged, mark.write(&*store, marks)).await?;
        // Reports also need to wait for hits.
        self.report(&mut shared, closed.end.plus(self.lateness.as_secs())).await;
        let claimed = shared.claim(&self.holder, now);
        if shared == *snapshot.shared {
            return Ok(checked);
        }
        let Some(version) = store.replace(DOCUMENT, snapshot.version, &shared.encode()).await? else {
            // If we get here, another watch was faster and has already done the work.
            return Ok(checked);
        };
        checked.judged = judged;
        if claimed.is_empty() {
            self.cached = Some(Snapshot { version, now: None, shared: Arc::new(shared) });
            return Ok(checked);
        }
        let arrived = delivered(&*self.deliver, &claimed).await;
        checked.count(&claimed, &arrived);
        shared.finish(&self.holder, &arrived, now);
        match store.replace(DOCUMENT, version, &shared.encode()).await? {
            Some(version) => self.cached = Some(Snapshot { version, now: None, shared: Arc::new(shared) }),
            // Another watch has replaced it in the meantime.
            None => self.alerts().change(|shared, _| shared.finish(&self.holder, &arrived, now)).await?,
        }
        Ok(checked)
    }

    /// Reads the shared state and the rules in the store. If only the rules can't be read, those of the previous pass stay.
    async fn read_with_rules(&mut self) -> Result<Snapshot, Error> {
        let list = stored_rules(Arc::clone(&self.store));
        let (snapshot, stored) = join(self.read(), list.read()).await;
        if snapshot.is_ok()
            && let Some(stored) = self.reading.make(ready(stored)).await
            && stored != self.stored
        {
            self.use_stored(&stored);
            self.stored = stored;
        }
        snapshot
    }

    /// Evaluates these rules from now on, in addition to those of the program.
    fn use_stored(&mut self, stored: &[StoredRule]) {
        let is_configured = |name: &str| self.configured.iter().any(|rule| rule.name == name);
        let fitted = |rule: &StoredRule| match rule.known() {
            None => Err("it is of a newer version".to_owned()),
            Some(_) if is_configured(rule.name()) => Err("the program has a rule with its name".to_owned()),
            Some(known) => known.clone().fitted(&self.stats).map_err(|error| error.to_string()),
        };
        let rules = stored.iter().filter_map(|rule| match fitted(rule) {
            Ok(rule) => Some(rule),
            Err(reason) => {
                emit(|| tracing::warn!(rule = rule.name(), reason, "a rule in the store is not evaluated"));
                None
            }
        });
        self.rules = self.configured.iter().cloned().chain(rules).collect();
        self.expectations.retain(&self.rules);
        let rules = Arc::clone(&self.rules);
        self.local()
            .rules
            .retain(|name, _| rules.iter().any(|rule| rule.name == *name && rule.local().is_some()));
    }

    /// Reads the shared state. This can be large with a thousand rules, so we only read it if it has changed.
    async fn read(&mut self) -> Result<Snapshot, Error> {
        let read = match &self.cached {
            Some(cached) => self.store.read_newer(DOCUMENT, cached.version),
            None => self.store.read(DOCUMENT),
        };
        let Document { version, content, now, .. } = read.await?;
        let shared = match &self.cached {
            Some(cached) if cached.version == version => Arc::clone(&cached.shared),
            _ => Arc::new(Shared::decode(&content)?),
        };
        let snapshot = Snapshot { version, now, shared };
        self.cached = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// Runs a pass at every interval until `shutdown` completes.
    ///
    /// Errors do not stop the loop. They are logged when passes start to fail, and when they recover. This
    /// will return within a second of `shutdown`.
    ///
    /// # Cancel safety
    /// See [`check_once`](Self::check_once).
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        until(shutdown, self.check_forever()).await;
        // Otherwise, other watches would have to wait until our mark expires.
        _ = timeout(LEAVE_TIMEOUT, self.progress.leave(&*self.store)).await;
    }

    fn check_forever(&mut self) -> BoxFuture<'_, ()> {
        Passes::of("the alert watch").repeat(self.interval, self, |watch| {
            Box::pin(async move {
                let checked = watch.check_once(Timestamp::now()).await?;
                emit(|| tracing::debug!(checked.judged, checked.delivered, "alert pass finished"));
                Ok(())
            })
        })
    }

    /// Evaluates process rules and delivers their messages, without using the store.
    async fn check_process(&mut self, now: Timestamp) -> Checked {
        let mut checked = Checked::default();
        let claimed = self.evaluate_process(now);
        if !claimed.is_empty() {
            let arrived = delivered(&*self.deliver, &claimed).await;
            checked.count(&claimed, &arrived);
            self.local().finish(&self.holder, &arrived, now);
        }
        checked
    }

    /// Evaluates process rules, and returns the messages to deliver.
    fn evaluate_process(&self, now: Timestamp) -> Vec<Message> {
        let mut local = self.local();
        local.end_silences(now);
        for rule in &*self.rules {
            let Some(condition) = rule.local() else { continue };
            let state = local.rules.entry(rule.name.clone()).or_default();
            if let Some(mut decision) = state.apply(rule, now, condition.evaluate(&self.stats)) {
                // Processes report alerts independently, so we need a unique id.
                decision.alert.id = format!("{}:{}", decision.alert.id, self.holder);
                state.decision = Some(decision.clone());
                local.decide(decision, now);
            }
        }
        local.claim(&self.holder, now)
    }

    /// Copies the silences of process rules from the document, so that we can apply them even if the store is
    /// unavailable.
    fn copy_silences(&self, shared: &Shared, now: Timestamp) {
        let mut local = self.local();
        for rule in self.rules.iter().filter(|rule| rule.local().is_some()) {
            let silenced = shared.rules.get(&rule.name).and_then(|state| state.silenced);
            let state = local.rules.entry(rule.name.clone()).or_default();
            if silenced.is_some() {
                state.silenced = silenced;
            } else if state.silenced.is_some() {
                local.end_silence(&rule.name, now);
            }
        }
    }

    fn local(&self) -> MutexGuard<'_, Shared> {
        self.local.lock().expect("the lock is never poisoned")
    }

    /// Returns the age in seconds of the oldest bucket with unsent hits in this process.
    fn held_for(&self, now: Timestamp) -> u64 {
        self.stats.held_since(now).map_or(0, |since| now.as_unix().saturating_sub(since.as_unix()))
    }

    /// Evaluates the buckets that are ready, and returns their number.
    async fn evaluate(&mut self, shared: &mut Shared, closed: Closed, now: Timestamp) -> Result<u64, Error> {
        let expectations = &mut self.expectations;
        let rules: BTreeMap<_, _> =
            self.rules.iter().filter(|rule| rule.local().is_none()).map(|rule| (&*rule.name, rule)).collect();
        // Other program versions may be running at the same time, with rules that we do not have.
        let is_known = |name: &str| self.rules.iter().any(|rule| rule.name == name);
        shared.rules.retain(|name, state| is_known(name) || !state.is_unused(now));
        expectations.complete = closed.complete;
        let state = |rule: &AlertRule| shared.rules.get(&rule.name);
        let mut due: Vec<_> =
            rules.values().filter_map(|rule| Due::of(rule, state(rule), closed.end)).collect();
        expectations.create_missing(&self.stats, &due).await?;
        due.retain(|due| expectations.is_ready(due.rule));
        let values = Values::read(&self.stats, &due, expectations).await?;
        let (mut count, mut reasons) = (0, BTreeMap::new());
        for due in &due {
            let mut decisions: Vec<Decision> = Vec::new();
            let state = shared.rules.entry(due.rule.name.clone()).or_default();
            for start in due.starts() {
                let verdict = match due.rule.condition {
                    Condition::Unusual { .. } => expectations.verdict(due.rule, start),
                    _ => values.verdict(due.rule, start, state),
                };
                match values.unread(due.rule, start).filter(|_| verdict.is_none()) {
                    Some(unread) => {
                        state.skip(due.rule, start, &unread.key);
                        reasons.insert(unread.key.clone(), unread.to_string());
                    }
                    None => decisions.extend(state.apply(due.rule, start, verdict)),
                }
                count += 1;
            }
            decisions.into_iter().for_each(|decision| shared.decide(decision, now));
        }
        shared.tell_unread(|name| rules.contains_key(name), &reasons, now);
        Ok(count)
    }

    /// Creates reports for days and weeks that have ended.
    async fn report(&mut self, shared: &mut Shared, now: Timestamp) {
        let is_known = |name: &str| self.reports.iter().any(|schedule| schedule.name() == name);
        shared.reports.retain(|name, end| is_known(name) || now.minus(UNUSED_REPORT_TTL).as_unix() < *end);
        if now < self.no_report_before {
            return;
        }
        for schedule in &self.reports {
            let Some(period) = schedule.period(self.stats.grid(), now) else { continue };
            let end = period.range.end.as_unix();
            // We start with the period that ends while a watch is running.
            let last = *shared.reports.entry(schedule.name().to_owned()).or_insert(end);
            if last >= end {
                continue;
            }
            let alerts = shared.raised_in(&period.range);
            let report = Report::read(&self.stats, schedule, &period, alerts);
            // Alerts should not wait for a failing report.
            match self.reporting.make(report).await {
                Some(report) => {
                    shared.reports.insert(schedule.name().to_owned(), end);
                    shared.push(Message::Report(report));
                }
                None => self.no_report_before = now.plus(REPORT_RETRY_DELAY),
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
