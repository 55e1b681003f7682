use std::collections::BTreeSet;
use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use counter_core::Timestamp;
use counter_core::document::DocumentStore;
use counter_core::internal::emit;
use counter_core::visits::Stats;

use super::delivery::{Deliver, DeliveryError};
use super::watch::{Settings, Watch};
use crate::message::Message;
use crate::reports::schedule::ReportSchedule;
use crate::rules::rule::{AlertRule, MAX_RULES, RuleError};

/// A builder for a [`Watch`].
///
/// ```
/// use counter_alert::{AlertRule, RuleError, Watch};
/// use counter_core::{Counters, MemoryStore, Precision};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (store, minute) = (MemoryStore::new(), Precision::MINUTE);
/// let counters = Counters::builder(store.clone()).build()?;
/// let busy = || Ok::<_, Box<dyn std::error::Error>>(AlertRule::above("busy", "hits".parse()?, minute, 1000));
///
/// let twice = Watch::builder(counters.stats(), store).rule(busy()?).rule(busy()?).build();
/// assert!(matches!(twice, Err(RuleError::Duplicate(name)) if name == "busy"));
/// # Ok(())
/// # }
/// ```
#[must_use = "call `build`"]
pub struct WatchBuilder {
    settings: Settings,
}

impl Watch {
    /// Creates a builder for a watch that keeps the state in this store. By default, messages will be logged.
    pub fn builder(stats: Stats, store: impl DocumentStore) -> WatchBuilder {
        WatchBuilder::new(stats, store)
    }
}

impl WatchBuilder {
    pub(super) fn new(stats: Stats, store: impl DocumentStore) -> Self {
        let deliver = |message: Message| {
            emit(|| tracing::warn!(id = message.id(), "{}", message.title()));
            std::future::ready(Ok::<_, DeliveryError>(()))
        };
        let settings = Settings {
            stats,
            store: Arc::new(store),
            rules: Vec::new(),
            reports: Vec::new(),
            deliver: Arc::new(deliver),
            interval: Duration::from_secs(10),
            lateness: Watch::LATENESS,
            holidays: Vec::new(),
        };
        Self { settings }
    }

    /// Adds a rule.
    pub fn rule(mut self, rule: AlertRule) -> Self {
        self.settings.rules.push(rule);
        self
    }

    /// Adds rules.
    pub fn rules(mut self, rules: impl IntoIterator<Item = AlertRule>) -> Self {
        self.settings.rules.extend(rules);
        self
    }

    /// Adds a report.
    pub fn report(mut self, schedule: ReportSchedule) -> Self {
        self.settings.reports.push(schedule);
        self
    }

    /// Sets how to deliver messages. Default: log them as warnings.
    pub fn deliver(mut self, deliver: impl Deliver) -> Self {
        self.settings.deliver = Arc::new(deliver);
        self
    }

    /// Excludes these times from rules on unusual values: they will not be used to train the model, and will
    /// not be evaluated by it. Rules with a fixed bound are not affected. Default: empty.
    pub fn holidays(mut self, holidays: impl IntoIterator<Item = Range<Timestamp>>) -> Self {
        self.settings.holidays.extend(holidays);
        self
    }

    /// Sets the interval between passes, at least a second. Default: 10 s.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.settings.interval = interval.max(Duration::from_secs(1));
        self
    }

    /// Sets the time to wait after the end of a bucket. Hits from processes without a watch must reach the
    /// store in this time, so it should be longer than their flush interval. Default: [15
    /// s](Watch::LATENESS).
    pub fn lateness(mut self, lateness: Duration) -> Self {
        self.settings.lateness = lateness;
        self
    }

    /// Creates the watch.
    ///
    /// # Errors
    /// Fails if a rule is invalid: see [`RuleError`].
    pub fn build(self) -> Result<Watch, RuleError> {
        let Self { mut settings } = self;
        let Settings { stats, rules, reports, .. } = &mut settings;
        if rules.len() > MAX_RULES {
            return Err(RuleError::TooMany);
        }
        let (mut names, grid) = (BTreeSet::new(), stats.grid());
        let reports_of = reports.iter().map(ReportSchedule::name);
        for name in rules.iter().map(|rule| &*rule.name).chain(reports_of) {
            if !names.insert(name) {
                return Err(RuleError::Duplicate(name.to_owned()));
            }
        }
        drop(names);
        *rules = mem::take(rules).into_iter().map(|rule| rule.fitted(stats)).collect::<Result<_, _>>()?;
        reports.iter().try_for_each(|schedule| schedule.check(grid))?;
        Ok(Watch::new(settings))
    }
}

impl fmt::Debug for WatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchBuilder").field("rules", &self.settings.rules).finish_non_exhaustive()
    }
}
