//! Goals: counters of what a site is for, such as signups, and how many people reach them.
//!
//! A goal is a counter with a name. It can be a page, e.g. the one after an order, or a counter that your code adds to with a
//! visitor. The conversion is the number of people of the goal divided by the number of people of the site.
//!
//! ```
//! use counter_alert::goal::{Goal, Goals};
//! use counter_core::visitor::VisitorKey;
//! use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let mut counters = Counters::builder(store.clone()).build()?;
//! let (recorder, goals) = (counters.recorder(), Goals::new(store));
//! let person = |name: &[u8]| Some(VisitorKey::new([7; 16]).visitor(&[name]));
//! for name in [b"one", b"two", b"six", b"ten"] {
//!     recorder.record(recorder.counter("hits"), person(name));
//! }
//! recorder.record(recorder.counter("signups"), person(b"six"));
//! counters.flush().await?;
//!
//! goals.mark(&Goal::new("signups".parse()?, "Signed up")?).await?;
//! let (day, now) = (Precision::DAY, Timestamp::now());
//! let today = day.bucket(now).start..now.plus(1);
//! let found = goals.reached(&counters.stats(), &"hits".parse()?, day, today).await?;
//! let reached = found[0].now.clone()?;
//! let people = reached.people.map(|people| people.visitors);
//! assert_eq!((reached.hits, people, reached.conversion()), (1, Some(1), Some(0.25)));
//! // Nothing was counted on the day before.
//! assert_eq!(found[0].before, None);
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::ops::Range;

use counter_core::document::DocumentStore;
use counter_core::visits::{Coverage, Stats, Total, Uniques, Unreadable};
use counter_core::{CounterName, Error, ErrorKind, Precision, Precisions, Timestamp};
use serde::{Deserialize, Serialize};

use crate::document::DocumentList;

/// A counter of something that people should do, with a name for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    #[serde(with = "as_text")]
    counter: CounterName,
    name: String,
}

/// The error for an invalid goal.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GoalError {
    /// The name is empty, is longer than [`Goal::MAX_CHARS`] characters, or contains a control character.
    Name,
    /// The counter is a [label value](CounterName::label), or only counts [views](CounterName::viewed), so that it has no
    /// people in all precisions.
    Counter,
}

/// The goals shared by all processes that use a store.
#[derive(Clone, Debug)]
pub struct Goals(DocumentList<Goal>);

/// A goal, and how often it was reached in a period.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// The numbers of the period, unless they can't be read.
    pub now: Result<Reached, Unreadable>,
    /// The numbers of the preceding period, with as many buckets. `None` unless the site and the goal were counted in the
    /// [whole](Coverage::Complete) period and can be read.
    pub before: Option<Reached>,
}

/// The hits and the people of a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reached {
    /// The hits of the counter.
    pub hits: u64,
    /// The people among the hits; `None` if no hit had a visitor, so that the number is not known.
    pub people: Option<Uniques>,
    /// The people of the site.
    pub of: Uniques,
}

impl Goal {
    /// The maximum number of characters in a name.
    pub const MAX_CHARS: usize = 100;

    /// Creates a goal.
    ///
    /// # Errors
    /// Fails if the [name](GoalError::Name) or the [counter](GoalError::Counter) is invalid.
    pub fn new(counter: CounterName, name: impl Into<String>) -> Result<Self, GoalError> {
        let name = name.into();
        if counter.label().is_some() || counter.viewed().is_some() {
            return Err(GoalError::Counter);
        }
        let is_empty = name.trim().is_empty();
        match is_empty || name.chars().count() > Self::MAX_CHARS || name.chars().any(char::is_control) {
            true => Err(GoalError::Name),
            false => Ok(Self { counter, name }),
        }
    }

    /// Returns the counter.
    #[must_use]
    pub const fn counter(&self) -> &CounterName {
        &self.counter
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Goals {
    /// The maximum number of goals in a store.
    pub const MAX: usize = 50;

    /// Creates a handle to the goals in a store.
    #[must_use]
    pub fn new(store: impl DocumentStore) -> Self {
        Self(DocumentList::new(store, "goals"))
    }

    /// Marks a counter as a goal. If it already is one, this changes the name.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::TooManyItems`] if there are already [`Goals::MAX`] goals. Also fails if the store fails, or if
    /// other processes keep changing the goals. The goal might have been marked in this case, but you can mark it again.
    pub async fn mark(&self, goal: &Goal) -> Result<(), Error> {
        let mark = |goals: &mut Vec<Goal>| {
            match goals.iter().position(|stored| stored.counter == goal.counter) {
                Some(place) if goals[place] == *goal => return (Ok(()), false),
                Some(place) => goals[place] = goal.clone(),
                None if goals.len() >= Self::MAX => {
                    return (Err(Error::new(ErrorKind::TooManyItems { max: Self::MAX as u64 })), false);
                }
                None => goals.push(goal.clone()),
            }
            (Ok(()), true)
        };
        self.0.change(mark).await?
    }

    /// Returns the goals in the order in which they were marked.
    ///
    /// # Errors
    /// Fails if the store can't be read.
    pub async fn list(&self) -> Result<Vec<Goal>, Error> {
        self.0.read().await
    }

    /// Removes a goal, and returns whether it existed. The counter is not changed.
    ///
    /// # Errors
    /// Fails if the store fails, or if other processes keep changing the goals. The goal might have been removed in this
    /// case.
    pub async fn remove(&self, counter: &CounterName) -> Result<bool, Error> {
        let remove = |goals: &mut Vec<Goal>| {
            let before = goals.len();
            goals.retain(|goal| goal.counter != *counter);
            let is_removed = goals.len() < before;
            (is_removed, is_removed)
        };
        self.0.change(remove).await
    }

    /// Returns how often each goal was reached in the buckets that start in `range`, and in the same number of buckets before.
    /// `site` is the counter of all hits, which is `hits` by default.
    ///
    /// # Errors
    /// Returns an error if the precision is not in the grid of counts and that of visitors, if the range is empty, if buckets
    /// of all goals and of the site exceed 10,000, or if the store can't be read.
    pub async fn reached(
        &self,
        stats: &Stats,
        site: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<GoalResult>, Error> {
        let goals = self.list().await?;
        let mut counters = vec![site.clone()];
        counters.extend(goals.iter().map(|goal| goal.counter.clone()));
        let width = u64::from(precision.as_seconds());
        let start = precision.starts(range.clone()).next().unwrap_or(range.start);
        let before = start.minus(width * precision.starts(range.clone()).count() as u64)..start;
        let coverage = stats.coverage(&counters, before.clone(), range.end).await?;
        let (reach, now) = (stats.reach(), Timestamp::now());
        let keeps = |set: &Precisions| {
            set.retention(precision).is_some_and(|retained| retained.oldest(now) <= before.start)
        };
        let is_retained = keeps(&reach.counts) && keeps(&reach.visitors);
        let has_before = is_retained && coverage[0] == Coverage::Complete;
        let now = reached(stats, &counters, precision, range).await?;
        let before = match has_before {
            true => reached(stats, &counters, precision, before).await?,
            false => Vec::new(),
        };
        let mut before = before.into_iter().map(Some).chain(std::iter::repeat(None));
        let result = |((goal, now), coverage): ((Goal, _), Coverage)| {
            let before = before.next().flatten().and_then(Result::ok);
            GoalResult { goal, now, before: before.filter(|_| coverage == Coverage::Complete) }
        };
        Ok(goals.into_iter().zip(now).zip(coverage.into_iter().skip(1)).map(result).collect())
    }
}

/// Returns how often each counter after the first, which is that of the site, was reached.
async fn reached(
    stats: &Stats,
    counters: &[CounterName],
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<Vec<Result<Reached, Unreadable>>, Error> {
    let hits = stats.totals(counters, precision, range.clone()).await?;
    let mut people = stats.uniques_by_counter(counters, precision, range).await?.into_iter();
    let site = people.next().expect("the first is that of the site");
    let of = |(hits, people): (Result<Total, _>, Result<Uniques, _>)| {
        let (hits, people) = (hits?.known()?, people?);
        let people = (hits == 0 || people.visitors > 0).then_some(people);
        Ok(Reached { hits, people, of: site.clone()? })
    };
    Ok(hits.into_iter().skip(1).zip(people).map(of).collect())
}

impl Reached {
    /// Returns the people as a share of the people of the site, from 0 to 1. `None` if either is unknown, or if the site had
    /// no people.
    ///
    /// In both numbers, a person without a stable identity counts once per [salt epoch](Stats::salt_epoch), a day by default.
    /// Over several days, this is thus the share of daily visitors.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "people are fewer than 2^53")]
    pub fn conversion(&self) -> Option<f64> {
        let people = self.people.filter(|_| self.of.visitors > 0)?;
        // Both are estimates, so that the part may be larger.
        Some((people.visitors as f64 / self.of.visitors as f64).min(1.0))
    }
}

impl fmt::Display for GoalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => {
                write!(
                    f,
                    "a name of a goal has 1 to {} characters, and no control characters",
                    Goal::MAX_CHARS
                )
            }
            Self::Counter => {
                f.write_str("a goal is the counter of a page or of your code, not a label or views")
            }
        }
    }
}

impl std::error::Error for GoalError {}

counter_core::internal::debug_in_full!(GoalError);

/// A counter name as a string.
mod as_text {
    use counter_core::CounterName;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(name: &CounterName, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(name)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CounterName, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
