use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use counter_core::document::DocumentStore;
use counter_core::internal::change_document;
use counter_core::{CounterName, Error, ErrorKind, Precision, Stats, Timestamp};
use futures_util::future::{BoxFuture, try_join};

use super::history::{Explanation, HistoryEntry, MAX_HISTORY};
use super::shared::{DOCUMENT, Shared};
use super::state::{Decision, MAX_SILENCE, RuleState};
use crate::alert::{Alert, AlertKind, Severity};
use crate::document::DocumentList;
use crate::rules::config::StoredRule;
use crate::rules::rule::{AlertRule, RuleError};
use crate::rules::unit::Unit;

/// A handle to the rules and to the state shared by all processes: raised alerts, the history, silences, and
/// tests.
///
/// You can get this from [`Watch::alerts`](crate::Watch::alerts). If a process does not run a watch, you can
/// create a handle from the same rules and store.
///
/// Rules can also be [added](Self::add) to the store. All watches of this store will evaluate them from their next pass on, in
/// addition to those of the program.
///
/// ```
/// use std::time::Duration;
/// use counter_alert::{AlertRule, Alerts, Arrival, SilenceError, Watch};
/// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (store, minute) = (MemoryStore::new(), Precision::MINUTE);
/// let counters = Counters::builder(store.clone()).build()?;
/// let busy = AlertRule::above("busy", "hits".parse()?, minute, 1000);
/// let mut watch = Watch::builder(counters.stats(), store).rule(busy).build()?;
///
/// let alerts: Alerts = watch.alerts();
/// alerts.silence("busy", Duration::from_secs(3600)).await?;
/// let test = alerts.test().await?;
/// watch.check_once(Timestamp::now()).await?;
///
/// let known = alerts.read().await?;
/// assert_eq!(known.rules[0].condition, "hits has more than 1000 hits");
/// assert!(known.rules[0].raised.is_none() && known.rules[0].silenced.is_some());
/// assert!(matches!(known.history[0].arrival, Arrival::Arrived(_)));
/// assert_eq!(known.history[0].alert.id, test);
/// assert!(matches!(alerts.silence("calm", Duration::ZERO).await, Err(SilenceError::UnknownRule)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Alerts {
    store: Arc<dyn DocumentStore>,
    /// The rules of the program.
    rules: Arc<[AlertRule]>,
    stored: DocumentList<StoredRule>,
    /// The states of the process rules, if this process runs a watch.
    local: Arc<Mutex<Shared>>,
}

/// The state of all rules, and the history.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AlertsStatus {
    /// The rules, in the configured order, followed by those in the store.
    pub rules: Vec<RuleStatus>,
    /// The latest 500 messages, most recent first.
    pub history: Vec<HistoryEntry>,
}

/// A rule with the current state.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RuleStatus {
    /// The rule name.
    pub name: String,
    /// True if the rule is in the store, so that it can be [removed](Alerts::remove).
    pub is_stored: bool,
    /// A description of the condition.
    pub condition: String,
    /// The counters used by the condition.
    pub counters: Vec<CounterName>,
    /// The value unit.
    pub unit: Unit,
    /// The alert severity.
    pub severity: Severity,
    /// The bucket precision, or `None` for a process rule, which is evaluated in all passes.
    pub precision: Option<Precision>,
    /// The number of buckets in a row needed to raise the alert.
    pub raise_after: u32,
    /// The number of buckets in a row needed to resolve the alert.
    pub resolve_after: u32,
    /// The start of the bucket that raised the alert, if the alert is raised.
    pub raised: Option<Timestamp>,
    /// The number of latest buckets in a row that do not meet the condition.
    pub unmet: u32,
    /// The end of the silence, if the rule is silenced.
    pub silenced: Option<Timestamp>,
    /// The end of the latest evaluated bucket, if any.
    pub judged: Option<Timestamp>,
    /// The data that could not be read in the latest bucket, e.g. a site of a [fleet](counter_core::fleet) that is away. The
    /// state of the rule is unknown since then.
    pub unread: Option<UnreadData>,
    /// The numbers of the latest bucket with a verdict. Buckets that can't be read or have too few hits do
    /// not have a verdict.
    pub last: Option<Explanation>,
    /// The latest message that raised or resolved the alert. This includes the reason.
    pub decision: Option<Alert>,
    /// The deciding buckets for this message, oldest first, up to the latest 6.
    pub buckets: Vec<Explanation>,
}

/// Data that a rule needs, but which can't be read. The `Display` text is a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadData {
    /// The name of the data, like [`Unreadable::key`](counter_core::visits::Unreadable::key), e.g. `site us`.
    pub key: String,
    /// The start of the first bucket that could not be read.
    pub since: Timestamp,
}

/// The error when a rule can't be silenced.
#[derive(Debug)]
#[non_exhaustive]
pub enum SilenceError {
    /// A rule with this name does not exist.
    UnknownRule,
    /// The store failed, or other processes kept changing the alerts.
    Store(Error),
}

/// The error when a rule can't be added to the store.
#[derive(Debug)]
#[non_exhaustive]
pub enum AddRuleError {
    /// The rule is invalid, or there is a different rule with this name.
    Rule(RuleError),
    /// There are already [`Alerts::MAX_STORED_RULES`], or the store failed, or other processes kept changing the rules.
    Store(Error),
}

impl Alerts {
    /// The maximum number of rules in a store.
    pub const MAX_STORED_RULES: usize = 100;

    /// The maximum duration of a silence: 30 days.
    pub const MAX_SILENCE: Duration = MAX_SILENCE;

    /// Creates a handle to the rules of watches over the same store, for a process that does not run a watch.
    /// The handle can't read the state of process rules.
    pub fn new(store: impl DocumentStore, rules: impl IntoIterator<Item = AlertRule>) -> Self {
        Self::over(Arc::new(store), rules.into_iter().collect(), Arc::default())
    }

    pub(super) fn over(
        store: Arc<dyn DocumentStore>,
        rules: Arc<[AlertRule]>,
        local: Arc<Mutex<Shared>>,
    ) -> Self {
        Self { stored: stored_rules(Arc::clone(&store)), store, rules, local }
    }

    /// Adds a rule to the store. Times are rounded down to seconds. It is not an error if the rule already exists, so that you can
    /// try again.
    ///
    /// ```
    /// use counter_alert::{AddRuleError, AlertRule, Alerts};
    /// use counter_core::{Counters, MemoryStore, Precision};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryStore::new();
    /// let stats = Counters::builder(store.clone()).build()?.stats();
    /// let alerts = Alerts::new(store, []);
    /// let busy = AlertRule::above("busy", "hits".parse()?, Precision::MINUTE, 1000);
    /// alerts.add(&busy, &stats).await?;
    /// assert!(alerts.read().await?.rules[0].is_stored);
    /// let other = AlertRule::above("busy", "hits".parse()?, Precision::MINUTE, 500);
    /// assert!(matches!(alerts.add(&other, &stats).await, Err(AddRuleError::Rule(_))));
    /// assert!(alerts.remove("busy").await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the rule is invalid, if the counters of `stats` do not keep its precision, if there is a different rule with this
    /// name, if there are already [`Alerts::MAX_STORED_RULES`], or if the store fails. In the last case, the rule may or may not have
    /// been added.
    ///
    /// A watch that can't evaluate the rule, because its program has other precisions or a rule with this name, logs a warning.
    pub async fn add(&self, rule: &AlertRule, stats: &Stats) -> Result<(), AddRuleError> {
        let _ = rule.clone().fitted(stats).map_err(AddRuleError::Rule)?;
        let duplicate = || AddRuleError::Rule(RuleError::Duplicate(rule.name.clone()));
        if self.has_configured(&rule.name) {
            return Err(duplicate());
        }
        let is_named = |stored: &StoredRule| stored.name() == rule.name;
        if !self.stored.read().await.map_err(AddRuleError::Store)?.iter().any(is_named) {
            // A new rule starts without the state of a removed one.
            self.forget(&rule.name).await.map_err(AddRuleError::Store)?;
        }
        // The precision and the times may have been rounded.
        let written = |rule: &AlertRule| serde_json::to_string(rule).expect("numbers are finite");
        let is_same =
            |stored: &StoredRule| stored.known().is_some_and(|known| written(known) == written(rule));
        let add = |rules: &mut Vec<StoredRule>| {
            match rules.iter().find(|stored| is_named(stored)) {
                Some(stored) if is_same(stored) => return (Ok(()), false),
                Some(_) => return (Err(duplicate()), false),
                None if rules.len() >= Self::MAX_STORED_RULES => {
                    let max = Self::MAX_STORED_RULES as u64;
                    let full = Error::new(ErrorKind::TooManyItems { max });
                    return (Err(AddRuleError::Store(full)), false);
                }
                None => rules.push(StoredRule::Known(rule.clone())),
            }
            (Ok(()), true)
        };
        self.stored.change(add).await.map_err(AddRuleError::Store)?
    }

    /// Removes a rule from the store, and returns whether it existed. If its alert is raised, it will not be resolved. A rule of
    /// the program can't be removed.
    ///
    /// # Errors
    /// Fails if the store fails, or if other processes keep changing the rules. The rule might have been removed in this case.
    pub async fn remove(&self, rule: &str) -> Result<bool, Error> {
        let remove = |rules: &mut Vec<StoredRule>| {
            let before = rules.len();
            rules.retain(|stored| stored.name() != rule);
            let is_removed = rules.len() < before;
            (is_removed, is_removed)
        };
        let is_removed = self.stored.change(remove).await?;
        if is_removed && !self.has_configured(rule) {
            self.forget(rule).await?;
        }
        Ok(is_removed)
    }

    /// Removes the state of a rule.
    async fn forget(&self, rule: &str) -> Result<(), Error> {
        self.change(|shared, _| _ = shared.rules.remove(rule)).await
    }

    fn has_configured(&self, rule: &str) -> bool {
        self.rules.iter().any(|known| known.name == rule)
    }

    /// Returns the names of the rules of the program, in the configured order.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| &*rule.name)
    }

    /// Reads the state of all rules and the history, in a single exchange with the store.
    ///
    /// # Errors
    /// Fails if the store can't be read.
    pub async fn read(&self) -> Result<AlertsStatus, Error> {
        let (seen, stored) = try_join(self.store.read(DOCUMENT), self.stored.read()).await?;
        let now = seen.now.unwrap_or_else(Timestamp::now);
        let mut shared = Shared::decode(&seen.content)?;
        let local = self.local.lock().expect("the lock is never poisoned").clone();
        let configured = self.rules.iter().map(|rule| (rule, false));
        let stored = stored.iter().filter_map(StoredRule::known);
        let stored = stored.filter(|rule| !self.has_configured(&rule.name)).map(|rule| (rule, true));
        let rules = configured.chain(stored).map(|(rule, is_stored)| {
            let mut state = shared.rules.remove(&rule.name).unwrap_or_default();
            if let Some(local) = local.rules.get(&rule.name).filter(|_| rule.local().is_some()) {
                let silenced = state.silenced;
                state = local.clone();
                state.silenced = silenced;
            }
            RuleStatus { is_stored, ..RuleStatus::of(rule, state, now) }
        });
        let rules = rules.collect();
        let mut history: Vec<_> = shared.history.into_iter().rev().collect();
        if !local.history.is_empty() {
            history.extend(local.history.into_iter().rev());
            history.sort_by_key(|entry| Reverse(entry.at));
            history.truncate(MAX_HISTORY);
        }
        Ok(AlertsStatus { rules, history })
    }

    /// Silences a rule for this time, up to [30 days](Self::MAX_SILENCE). To end the silence, use
    /// `Duration::ZERO`. Returns the end of the silence, if any.
    ///
    /// A silenced rule is still evaluated and recorded in the history, but will not send messages. When the
    /// silence ends, receivers will get an update if they missed a change, i.e. if the alert is now raised,
    /// or if an alert they have received is now resolved. If a message is already being delivered, this will
    /// not stop it.
    ///
    /// # Errors
    /// Fails if no rule with this name exists, or if the store fails. In the latter case, the rule may or may
    /// not be silenced.
    pub async fn silence(&self, rule: &str, time: Duration) -> Result<Option<Timestamp>, SilenceError> {
        if !self.has_configured(rule) {
            let stored = self.stored.read().await.map_err(SilenceError::Store)?;
            if !stored.iter().any(|stored| stored.name() == rule) {
                return Err(SilenceError::UnknownRule);
            }
        }
        let seconds = time.min(MAX_SILENCE).as_secs();
        let silenced = self.change(move |shared, now| {
            if seconds == 0 {
                shared.end_silence(rule, now);
                return None;
            }
            let until = now.plus(seconds);
            shared.rules.entry(rule.to_owned()).or_default().silenced = Some(until.as_unix());
            Some(until)
        });
        silenced.await.map_err(SilenceError::Store)
    }

    /// Sends a [test](AlertKind::Test) with the next pass of a watch, and returns the message id. If there is
    /// already a pending test, this returns the existing id instead.
    ///
    /// # Errors
    /// Fails if the store fails. The test might still be sent in this case.
    pub async fn test(&self) -> Result<String, Error> {
        self.change(|shared, now| shared.test(now).id).await
    }

    /// Changes the shared state, and retries if another process has replaced it in the meantime.
    pub(super) fn change<'a, T: Send + 'a>(
        &'a self,
        change: impl Fn(&mut Shared, Timestamp) -> T + Send + Sync + 'a,
    ) -> BoxFuture<'a, Result<T, Error>> {
        Box::pin(async move {
            let changed = change_document(&*self.store, DOCUMENT, |document| {
                let document = document?;
                let before = Shared::decode(&document.content)?;
                let mut shared = before.clone();
                let outcome = change(&mut shared, document.now.unwrap_or_else(Timestamp::now));
                Ok((outcome, (shared != before).then(|| shared.encode())))
            });
            changed.await?.ok_or_else(|| {
                Error::new(ErrorKind::Unavailable).caused_by("too many concurrent changes to the alerts")
            })
        })
    }
}

impl RuleStatus {
    fn of(rule: &AlertRule, state: RuleState, now: Timestamp) -> Self {
        let silenced = state.silenced.filter(|_| state.is_silenced(now)).map(Timestamp::from_unix);
        let (decision, buckets) = match state.decision {
            Some(Decision { alert, buckets }) => (Some(alert), buckets),
            None => (None, Vec::new()),
        };
        Self {
            name: rule.name.clone(),
            is_stored: false,
            condition: rule.condition.to_string(),
            counters: rule.condition.all_counters().into_iter().cloned().collect(),
            unit: rule.condition.unit(),
            severity: rule.severity,
            precision: rule.local().is_none().then_some(rule.precision),
            raise_after: rule.raise_after,
            resolve_after: rule.resolve_after,
            raised: state.raised.map(Timestamp::from_unix),
            unmet: state.unmet,
            silenced,
            judged: (state.judged > 0).then(|| Timestamp::from_unix(state.judged)),
            unread: state
                .unread
                .map(|unread| UnreadData { key: unread.key, since: Timestamp::from_unix(unread.since) }),
            last: state.seen.last().cloned(),
            decision,
            buckets,
        }
    }

    /// Returns the reason for the alert, if the alert is raised.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        let raised =
            self.decision.as_ref().filter(|of| of.kind == AlertKind::Raised && self.raised.is_some());
        raised.map(|alert| &*alert.reason)
    }
}

impl fmt::Display for UnreadData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read", self.key)
    }
}

impl fmt::Debug for Alerts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alerts").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// Returns the list of rules in a store.
pub(super) fn stored_rules(store: Arc<dyn DocumentStore>) -> DocumentList<StoredRule> {
    DocumentList::over(store, "rules")
}

impl fmt::Display for AddRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AddRuleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Rule(_) => None,
            Self::Store(error) => std::error::Error::source(error),
        }
    }
}

impl fmt::Display for SilenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRule => f.write_str("no such rule"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SilenceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::UnknownRule => None,
            Self::Store(error) => std::error::Error::source(error),
        }
    }
}
