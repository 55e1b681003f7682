use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::condition::Condition;
use super::rule::{AlertRule, RULES, RuleError};
use super::schedule::ReportSchedule;
use super::settings::Settings;
use super::watch::Watch;
use super::{Deliver, DeliveryError, Message};
use crate::Timestamp;
use crate::document::DocumentStore;
use crate::log::unwind::tell;
use crate::visits::Stats;

/// The settings of a [`Watch`].
#[must_use = "call `build`"]
pub struct WatchBuilder {
    settings: Settings,
}

impl Watch {
    /// Returns a builder of a watch, whose state is in this store; it delivers into the log until it is told otherwise.
    pub fn builder(stats: Stats, store: impl DocumentStore) -> WatchBuilder {
        WatchBuilder::new(stats, store)
    }
}

impl WatchBuilder {
    pub(super) fn new(stats: Stats, store: impl DocumentStore) -> Self {
        let deliver = |message: Message| {
            tell(|| tracing::warn!(id = message.id(), "{}", message.title()));
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

    /// Adds reports.
    pub fn report(mut self, schedule: ReportSchedule) -> Self {
        self.settings.reports.push(schedule);
        self
    }

    /// Delivers messages in this way. Default: into the log, as warnings.
    pub fn deliver(mut self, deliver: impl Deliver) -> Self {
        self.settings.deliver = Arc::new(deliver);
        self
    }

    /// Leaves out these times where a bucket is compared with what is expected: they neither train the model, nor are
    /// judged by it. Rules with a bound of their own are looked at all the same. Default: none.
    pub fn holidays(mut self, holidays: impl IntoIterator<Item = Range<Timestamp>>) -> Self {
        self.settings.holidays.extend(holidays);
        self
    }

    /// Makes a pass so often, at least once a second. Default: 10 s.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.settings.interval = interval.max(Duration::from_secs(1));
        self
    }

    /// Judges a bucket this long after its end: the time that hits of processes without a watch may take to the store, at
    /// least the interval of their flushers. Default: [15 s](Watch::LATENESS).
    pub fn lateness(mut self, lateness: Duration) -> Self {
        self.settings.lateness = lateness;
        self
    }

    /// Returns the watch.
    ///
    /// # Errors
    /// Fails when a rule cannot be watched: see [`RuleError`].
    pub fn build(self) -> Result<Watch, RuleError> {
        let Self { mut settings } = self;
        let Settings { stats, rules, reports, .. } = &mut settings;
        if rules.len() > RULES {
            return Err(RuleError::TooMany);
        }
        let (mut names, grid) = (BTreeSet::new(), stats.grid());
        let reports_of = reports.iter().map(ReportSchedule::name);
        for name in rules.iter().map(|rule| &*rule.name).chain(reports_of) {
            if !names.insert(name) {
                return Err(RuleError::Twice(name.to_owned()));
            }
        }
        drop(names);
        for rule in rules {
            rule.check()?;
            let kept = match &rule.condition {
                Condition::Local(_) => continue,
                Condition::QuantileAbove { .. } => grid.distributions.as_ref(),
                _ => Some(&grid.counts),
            };
            // A precision is named by its width: its days begin where those of the site do.
            let width = rule.precision.as_seconds();
            let mut kept = kept.into_iter().flat_map(|kept| kept.iter()).map(|kept| kept.precision);
            let precision = kept.find(|kept| kept.as_seconds() == width);
            rule.precision =
                precision.ok_or_else(|| RuleError::Precision(rule.name.clone(), rule.precision))?;
        }
        reports.iter().try_for_each(|schedule| schedule.check(grid))?;
        Ok(Watch::new(settings))
    }
}

impl fmt::Debug for WatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchBuilder").field("rules", &self.settings.rules).finish_non_exhaustive()
    }
}
