use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::condition::{Condition, Verdict};
use super::rule::{AlertRule, RULES, RuleError};
use super::shared::{ATTEMPTS, DOCUMENT, Shared};
use super::state::AHEAD;
use super::{Alert, Alerts, Deliver, DeliveryError};
use crate::document::DocumentStore;
use crate::future::BoxFuture;
use crate::unwind::tell;
use crate::visits::passes::Passes;
use crate::visits::{Distribution, Series, Stats, Unreadable};
use crate::writer::WriterId;
use crate::{CounterName, Error, Precision, Timestamp};

/// A future that looks at rules, and has told once over all processes what changed.
pub struct Watch {
    stats: Stats,
    store: Arc<dyn DocumentStore>,
    rules: Arc<[AlertRule]>,
    deliver: Arc<dyn Deliver>,
    interval: Duration,
    /// The name of this watch in claims.
    holder: String,
}

/// The settings of a [`Watch`].
#[must_use = "call `build`"]
pub struct WatchBuilder {
    stats: Stats,
    store: Arc<dyn DocumentStore>,
    rules: Vec<AlertRule>,
    deliver: Arc<dyn Deliver>,
    interval: Duration,
}

/// The outcome of a pass of a [`Watch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The buckets that were judged, over all rules.
    pub judged: u64,
    /// The messages that a receiver has taken.
    pub delivered: u64,
    /// The messages that could not be delivered, and will be tried again.
    pub undelivered: u64,
}

/// The buckets that a rule catches up with after a pause.
const CATCH_UP: u64 = 60;

/// The time that a delivery may take.
const DELIVERY: Duration = Duration::from_secs(30);

/// The time that the deliveries of a pass may take, well below that of a claim.
const DELIVERIES: Duration = Duration::from_secs(40);

/// The counters that one read asks for.
const COUNTERS: usize = 1000;

impl Watch {
    /// The time after the end of a bucket at which it is judged: until then, hits may be on their way.
    pub const LATENESS: Duration = Duration::from_secs(15);

    /// Returns a builder of a watch, whose state is in this store; it delivers into the log until it is told otherwise.
    pub fn builder(stats: Stats, store: impl DocumentStore) -> WatchBuilder {
        let deliver = |alert: Alert| {
            tell(|| tracing::warn!(%alert, id = alert.id, "an alert"));
            std::future::ready(Ok::<_, DeliveryError>(()))
        };
        let interval = Duration::from_secs(10);
        WatchBuilder {
            stats,
            store: Arc::new(store),
            rules: Vec::new(),
            deliver: Arc::new(deliver),
            interval,
        }
    }

    /// Returns a handle on the rules of this watch and their state, for pages and programs.
    #[must_use]
    pub fn alerts(&self) -> Alerts {
        Alerts::over(Arc::clone(&self.store), Arc::clone(&self.rules))
    }

    /// Judges the buckets that closed since any watch did so last, and delivers what is to be told.
    ///
    /// The time is the earlier of `now` and that of the store's clock.
    ///
    /// # Errors
    /// Fails when the store fails; what was not done is done by the next pass. A delivery that fails is no error.
    ///
    /// # Cancel safety
    /// A message that was under way is delivered again, by this watch or another one.
    pub async fn check_once(&mut self, now: Timestamp) -> Result<Checked, Error> {
        let seen = self.store.read(DOCUMENT).await?;
        let now = seen.now.map_or(now, |of_store| of_store.min(now));
        let before = Shared::decode(&seen.content)?;
        let mut shared = before.clone();
        shared.end_silences(now);
        let judged = self.judge(&mut shared, now).await?;
        let claimed = shared.claim(&self.holder, now);
        let mut checked = Checked { judged, ..Checked::default() };
        if shared == before {
            return Ok(checked);
        }
        if !self.store.replace(DOCUMENT, seen.version, &shared.encode()).await? {
            // Another watch was first, and has what there was to do.
            return Ok(Checked::default());
        }
        if claimed.is_empty() {
            return Ok(checked);
        }
        let arrived = self.deliver(&claimed).await;
        (checked.delivered, checked.undelivered) =
            (arrived.len() as u64, (claimed.len() - arrived.len()) as u64);
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

    /// Brings the rules up to this time; returns the number of buckets that were judged.
    async fn judge(&self, shared: &mut Shared, now: Timestamp) -> Result<u64, Error> {
        // A rule that was taken out has no state any more.
        shared.rules.retain(|name, _| self.rules.iter().any(|rule| rule.name == *name));
        let mut due = Vec::new();
        for rule in &*self.rules {
            let judged = shared.rules.get(&rule.name).map_or(0, |state| state.judged);
            let range = due_of(rule.precision, judged, now);
            if !range.is_empty() {
                due.push((rule, range));
            }
        }
        let hits = self.hits(&due).await?;
        let mut count = 0;
        for (rule, range) in due {
            let distributions = self.distributions(rule, &range).await?;
            let state = shared.rules.entry(rule.name.clone()).or_default();
            let mut decisions = Vec::new();
            for start in rule.precision.starts(range) {
                let verdict = match &rule.condition {
                    Condition::QuantileAbove { q, value, least, .. } => {
                        let distribution = distributions.get(&start);
                        distribution.filter(|of| of.count() >= *least).and_then(|of| {
                            let found = of.quantile(*q)?;
                            Some(Verdict { is_met: found > *value, value: found, bound: *value })
                        })
                    }
                    condition => condition.judge(|counter| hits.get(&(rule.precision, counter))?.at(start)),
                };
                decisions.extend(state.see(rule, start, verdict));
                count += 1;
            }
            for decision in decisions {
                shared.decide(decision, now);
            }
        }
        Ok(count)
    }

    /// Reads the hits of all counters that rules need, by one exchange for each precision and thousand counters.
    async fn hits<'a>(
        &self,
        due: &[(&'a AlertRule, Range<Timestamp>)],
    ) -> Result<HashMap<(Precision, &'a CounterName), Hits>, Error> {
        let mut asked: BTreeMap<Precision, (Range<Timestamp>, BTreeSet<&CounterName>)> = BTreeMap::new();
        for (rule, range) in due {
            let (all, counters) =
                asked.entry(rule.precision).or_insert_with(|| (range.clone(), BTreeSet::new()));
            *all = all.start.min(range.start)..all.end.max(range.end);
            counters.extend(rule.condition.counters());
        }
        let mut hits = HashMap::new();
        for (precision, (range, counters)) in asked {
            let counters: Vec<_> = counters.into_iter().collect();
            for counters in counters.chunks(COUNTERS) {
                let names: Vec<_> = counters.iter().map(|counter| (*counter).clone()).collect();
                let series = self.stats.series_many(&names, precision, range.clone()).await?;
                hits.extend(
                    counters.iter().zip(series).map(|(counter, of)| ((precision, *counter), Hits(of))),
                );
            }
        }
        Ok(hits)
    }

    async fn distributions(
        &self,
        rule: &AlertRule,
        range: &Range<Timestamp>,
    ) -> Result<BTreeMap<Timestamp, Distribution>, Error> {
        let Condition::QuantileAbove { counter, measure, .. } = &rule.condition else {
            return Ok(BTreeMap::new());
        };
        let counters = std::slice::from_ref(counter);
        let found = self.stats.distribution(counters, rule.precision, range.clone(), *measure).await?;
        Ok(found.buckets.into_iter().collect())
    }

    /// Delivers messages one after the other; returns the ids of those that have arrived.
    async fn deliver(&self, alerts: &[Alert]) -> Vec<String> {
        let mut arrived = Vec::new();
        let deliveries = async {
            for alert in alerts {
                match timeout(DELIVERY, crate::unwind::caught(delivered(&*self.deliver, alert))).await {
                    Ok(Ok(())) => arrived.push(alert.id.clone()),
                    Ok(Err(Undelivered(reason))) => {
                        tell(|| tracing::warn!(id = alert.id, reason, "an alert was not delivered"));
                    }
                    Err(_) => {
                        tell(|| tracing::warn!(id = alert.id, "the delivery of an alert takes too long"));
                    }
                }
            }
        };
        _ = timeout(DELIVERIES, deliveries).await;
        arrived
    }

    /// Takes what has arrived out of the shared.
    async fn settle(&self, arrived: &[String], now: Timestamp) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let seen = self.store.read(DOCUMENT).await?;
            let mut shared = Shared::decode(&seen.content)?;
            shared.settle(&self.holder, arrived, seen.now.map_or(now, |of_store| of_store.min(now)));
            if self.store.replace(DOCUMENT, seen.version, &shared.encode()).await? {
                break;
            }
        }
        Ok(())
    }
}

async fn delivered(deliver: &dyn Deliver, alert: &Alert) -> Result<(), Undelivered> {
    deliver.deliver(alert).await.map_err(|error| Undelivered(error.to_string()))
}

/// The reason why a message has not arrived: that of the receiver, or a panic.
struct Undelivered(String);

impl From<crate::unwind::Panicked> for Undelivered {
    fn from(panicked: crate::unwind::Panicked) -> Self {
        Self(panicked.to_string())
    }
}

/// The buckets of a rule that are to be judged: those that have closed, from the end of the last that was judged.
fn due_of(precision: Precision, judged: u64, now: Timestamp) -> Range<Timestamp> {
    let width = u64::from(precision.as_seconds());
    let end = precision.bucket(now.minus(Watch::LATENESS.as_secs())).start;
    let first = match judged {
        0 => end.minus(width),
        judged if judged > end.as_unix().saturating_add(AHEAD) => end.minus(width),
        judged => precision.bucket(Timestamp::from_unix(judged)).start.max(end.minus(CATCH_UP * width)),
    };
    first..end
}

/// The hits of one counter.
struct Hits(Result<Series, Unreadable>);

impl Hits {
    /// Returns the hits in the bucket that starts here, if these are known.
    fn at(&self, start: Timestamp) -> Option<u64> {
        let series = self.0.as_ref().ok().filter(|series| !series.is_unknown(start))?;
        let found = series.samples.binary_search_by_key(&start, |sample| sample.start);
        Some(found.map_or(0, |place| series.samples[place].count))
    }
}

impl WatchBuilder {
    /// Adds a rule.
    pub fn rule(mut self, rule: AlertRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Delivers alerts in this way. Default: into the log, as warnings.
    pub fn deliver(mut self, deliver: impl Deliver) -> Self {
        self.deliver = Arc::new(deliver);
        self
    }

    /// Makes a pass so often, at least once a second. Default: 10 s.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_secs(1));
        self
    }

    /// Returns the watch.
    ///
    /// # Errors
    /// Fails when a rule cannot be watched: see [`RuleError`].
    pub fn build(self) -> Result<Watch, RuleError> {
        let Self { stats, store, rules, deliver, interval } = self;
        if rules.len() > RULES {
            return Err(RuleError::TooMany);
        }
        let (mut names, grid) = (BTreeSet::new(), stats.grid());
        for rule in &rules {
            rule.check()?;
            if !names.insert(&rule.name) {
                return Err(RuleError::Twice(rule.name.clone()));
            }
            let kept = match &rule.condition {
                Condition::QuantileAbove { .. } => grid.distributions.as_ref(),
                _ => Some(&grid.counts),
            };
            if !kept.is_some_and(|kept| kept.iter().any(|kept| kept.precision == rule.precision)) {
                return Err(RuleError::Precision(rule.name.clone(), rule.precision));
            }
        }
        let holder = WriterId::random().to_string();
        Ok(Watch { stats, store, rules: rules.into(), deliver, interval, holder })
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl fmt::Debug for WatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchBuilder").field("rules", &self.rules).finish_non_exhaustive()
    }
}
