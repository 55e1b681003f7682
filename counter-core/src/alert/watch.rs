use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::delivery::{Deliver, delivered};
use super::judge::{Due, Values};
use super::report::Report;
use super::rule::AlertRule;
use super::schedule::ReportSchedule;
use super::shared::Shared;
use super::{Alert, Message};
use crate::document::DocumentStore;
use crate::future::BoxFuture;
use crate::unwind::tell;
use crate::visits::Stats;
use crate::visits::passes::Passes;
use crate::writer::WriterId;
use crate::{Error, Timestamp};

/// A future that looks at rules, and has told once over all processes what changed.
pub struct Watch {
    stats: Stats,
    store: Arc<dyn DocumentStore>,
    rules: Vec<AlertRule>,
    reports: Vec<ReportSchedule>,
    deliver: Arc<dyn Deliver>,
    interval: Duration,
    /// The name of this watch in claims.
    holder: String,
    /// The states of the rules about this process, and what is to be told of them.
    own: Shared,
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

/// The name of the document that the watches share.
const DOCUMENT: &str = "alerts";

/// The number of times that other processes may replace the document while this one changes it.
const ATTEMPTS: usize = 10;

impl Watch {
    /// The time after the end of a bucket at which it is judged: until then, hits may be on their way.
    pub const LATENESS: Duration = Duration::from_secs(15);

    pub(super) fn new(
        stats: Stats,
        store: Arc<dyn DocumentStore>,
        rules: Vec<AlertRule>,
        reports: Vec<ReportSchedule>,
        deliver: Arc<dyn Deliver>,
        interval: Duration,
    ) -> Self {
        let (holder, own) = (WriterId::random().to_string(), Shared::default());
        Self { stats, store, rules, reports, deliver, interval, holder, own }
    }

    /// Judges the buckets that closed since any watch did so last, and delivers what is to be told.
    ///
    /// The time is the earlier of `now` and that of the store's clock. Rules about the process come first.
    ///
    /// # Errors
    /// Fails when the store fails; what was not done is done by the next pass. A delivery that fails is no error.
    ///
    /// # Cancel safety
    /// A message that was under way is delivered again, by this watch or another one.
    pub async fn check_once(&mut self, now: Timestamp) -> Result<Checked, Error> {
        let mut checked = self.check_process(now).await;
        let seen = self.store.read(DOCUMENT).await?;
        let now = seen.now.map_or(now, |of_store| of_store.min(now));
        let before = Shared::decode(&seen.content)?;
        let mut shared = before.clone();
        let judged = self.judge(&mut shared, now).await?;
        self.report(&mut shared, now).await?;
        let claimed = shared.claim(&self.holder, now);
        if shared == before {
            return Ok(checked);
        }
        if !self.store.replace(DOCUMENT, seen.version, &shared.encode()).await? {
            // Another watch was first, and has what there was to do.
            return Ok(checked);
        }
        checked.judged = judged;
        if claimed.is_empty() {
            return Ok(checked);
        }
        let arrived = delivered(&*self.deliver, &claimed).await;
        checked.count(&claimed, &arrived);
        self.settle(&arrived, now).await?;
        Ok(checked)
    }

    /// Makes a pass at every interval until `shutdown` completes.
    ///
    /// An error does not end the loop; it is logged when failures begin and again when they end.
    ///
    /// # Cancel safety
    /// As with [`check_once`](Self::check_once).
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        tokio::select! {
            biased;
            () = &mut shutdown => {}
            () = self.check_for_ever() => {}
        }
    }

    fn check_for_ever(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut passes = Passes::of("the watch over alerts");
            loop {
                sleep(self.interval).await;
                if let Some(checked) = passes.make(self.check_once(Timestamp::now())).await {
                    tell(|| tracing::debug!(checked.judged, checked.delivered, "watched"));
                }
            }
        })
    }

    /// Judges the rules about this process, and delivers what is to be told of them, without the store.
    async fn check_process(&mut self, now: Timestamp) -> Checked {
        let mut checked = Checked::default();
        for rule in &self.rules {
            let Some(condition) = rule.local() else { continue };
            let state = self.own.rules.entry(rule.name.clone()).or_default();
            if let Some(mut alert) = state.see(rule, now, condition.judge(&self.stats)) {
                // Each process tells its own.
                alert.id = format!("{}:{}", alert.id, self.holder);
                push(&mut self.own, Message::Alert(alert));
            }
        }
        let claimed = self.own.claim(&self.holder, now);
        if !claimed.is_empty() {
            let arrived = delivered(&*self.deliver, &claimed).await;
            checked.count(&claimed, &arrived);
            self.own.settle(&self.holder, &arrived, now);
        }
        checked
    }

    /// Brings the rules up to this time; returns the number of buckets that were judged.
    async fn judge(&self, shared: &mut Shared, now: Timestamp) -> Result<u64, Error> {
        let rules: BTreeMap<_, _> =
            self.rules.iter().filter(|rule| rule.local().is_none()).map(|rule| (&*rule.name, rule)).collect();
        // A rule that was taken out has no state any more.
        shared.rules.retain(|name, _| rules.contains_key(&**name));
        let end = now.minus(Self::LATENESS.as_secs());
        let state = |rule: &AlertRule| shared.rules.get(&rule.name);
        let due: Vec<_> = rules.values().filter_map(|rule| Due::of(rule, state(rule), end)).collect();
        let values = Values::read(&self.stats, &due).await?;
        let mut count = 0;
        for due in &due {
            let mut alerts: Vec<Alert> = Vec::new();
            let state = shared.rules.entry(due.rule.name.clone()).or_default();
            for start in due.starts() {
                let verdict = values.verdict(due.rule, start, state);
                alerts.extend(state.see(due.rule, start, verdict));
                count += 1;
            }
            alerts.into_iter().for_each(|alert| push(shared, Message::Alert(alert)));
        }
        Ok(count)
    }

    /// Makes the reports of days and weeks that are over.
    async fn report(&self, shared: &mut Shared, now: Timestamp) -> Result<(), Error> {
        shared.reports.retain(|name, _| self.reports.iter().any(|schedule| schedule.name() == name));
        for schedule in &self.reports {
            let Some(period) = schedule.period(self.stats.grid(), now) else { continue };
            let end = period.range.end.as_unix();
            // The first report is of the first period that ends while there is a watch.
            let last = *shared.reports.entry(schedule.name().to_owned()).or_insert(end);
            if last >= end {
                continue;
            }
            let report = Report::read(&self.stats, schedule, &period, Vec::new()).await?;
            shared.reports.insert(schedule.name().to_owned(), end);
            push(shared, Message::Report(report));
        }
        Ok(())
    }

    /// Takes what has arrived out of the document.
    async fn settle(&self, arrived: &[String], now: Timestamp) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let seen = self.store.read(DOCUMENT).await?;
            let mut shared = Shared::decode(&seen.content)?;
            shared.settle(&self.holder, arrived, now);
            if self.store.replace(DOCUMENT, seen.version, &shared.encode()).await? {
                break;
            }
        }
        Ok(())
    }
}

/// Adds a message to an outbox, and says in the log what it leaves no room for.
fn push(shared: &mut Shared, message: Message) {
    if let Some(lost) = shared.push(message) {
        tell(|| {
            tracing::error!(lost = lost.title(), "no receiver takes messages, and there is no more room");
        });
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
