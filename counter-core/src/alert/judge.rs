//! The values that rules need of buckets, read for all rules at once, and the verdicts about them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::condition::Condition;
use super::rule::AlertRule;
use super::state::{AHEAD, RuleState};
use super::verdict::Verdict;
use crate::visits::{Distribution, LabelRanking, Measure, Series, Stats, Unreadable};
use crate::{CounterName, Error, ErrorKind, Precision, Timestamp};

/// A rule with the buckets of it that are to be judged.
#[derive(Debug)]
pub(super) struct Due<'a> {
    pub(super) rule: &'a AlertRule,
    pub(super) range: Range<Timestamp>,
}

/// The values of all buckets that are to be judged.
#[derive(Debug, Default)]
pub(super) struct Values<'a> {
    hits: HashMap<(Precision, &'a CounterName), Result<Series, Unreadable>>,
    distributions: HashMap<(Precision, Measure, &'a CounterName), BTreeMap<Timestamp, Distribution>>,
    labels: HashMap<(&'a str, Precision, Timestamp), LabelRanking>,
}

/// The buckets that a rule catches up with after a pause.
const CATCH_UP: u64 = 60;

/// The buckets before the first pass that a rule about dead routes looks at.
const BEFORE: u32 = 366;

/// The buckets that a rule about a label catches up with: each is a reading of its own.
const LABELS: u64 = 3;

/// The measures that have quantiles.
const MEASURES: [Measure; 3] = [Measure::Time, Measure::Body, Measure::Size];

/// The counters that one read asks for.
const COUNTERS: u64 = 1000;

impl<'a> Due<'a> {
    /// Returns the rule with its buckets that have closed by `end`, from the end of the last that was judged; `None` where
    /// there are none.
    pub(super) fn of(rule: &'a AlertRule, state: Option<&RuleState>, end: Timestamp) -> Option<Self> {
        let width = u64::from(rule.precision.as_seconds());
        let end = rule.precision.bucket(end).start;
        let (before, catch_up) = match rule.condition {
            Condition::Dead { .. } => (rule.raise_after.min(BEFORE).into(), BEFORE.into()),
            Condition::NewLabel { .. } => (1, LABELS),
            _ => (1, CATCH_UP),
        };
        let first = match state.map_or(0, |state| state.judged) {
            0 => end.minus(before * width),
            judged if judged > end.as_unix().saturating_add(AHEAD) => end.minus(width),
            judged => {
                rule.precision.bucket(Timestamp::from_unix(judged)).start.max(end.minus(catch_up * width))
            }
        };
        (first < end).then_some(Self { rule, range: first..end })
    }

    /// Returns the starts of the buckets.
    pub(super) fn starts(&self) -> impl Iterator<Item = Timestamp> + use<'a> {
        self.rule.precision.starts(self.range.clone())
    }
}

impl<'a> Values<'a> {
    /// Reads what these rules need: by one exchange with each shard for a precision and a thousand counters, one for a
    /// precision and the distributions of as many counters as an answer may have, and some for each bucket of a label.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub(super) async fn read(stats: &Stats, due: &[Due<'a>]) -> Result<Self, Error> {
        let mut values = Self::default();
        let counted = |due: &Due<'a>| due.rule.condition.counters();
        for (precision, Asked { range, counters }) in asked(due, counted) {
            let counters: Vec<_> = counters.into_iter().collect();
            for counters in counters.chunks(portion(precision, &range, Stats::MAX_SAMPLES)) {
                let series = stats.series_many(&owned(counters), precision, range.clone()).await?;
                values.hits.extend(counters.iter().map(|counter| (precision, *counter)).zip(series));
            }
        }
        let measured = |due: &Due<'a>| match &due.rule.condition {
            Condition::QuantileAbove { counter, .. } => vec![counter],
            _ => Vec::new(),
        };
        for (precision, Asked { range, counters }) in asked(due, measured) {
            let counters: Vec<_> = counters.into_iter().collect();
            for counters in counters.chunks(portion(precision, &range, Stats::MAX_DISTRIBUTIONS)) {
                let names = owned(counters);
                let read = stats.distributions_by_counter(&names, precision, range.clone(), &MEASURES);
                for (counter, of) in counters.iter().zip(read.await?) {
                    let of = MEASURES.iter().map(|measure| (precision, *measure, *counter)).zip(of);
                    values.distributions.extend(of);
                }
            }
        }
        for due in due {
            let Condition::NewLabel { label, places, .. } = &due.rule.condition else { continue };
            let precision = due.rule.precision;
            for start in due.starts() {
                let bucket = start..start.plus(precision.as_seconds().into());
                match stats.label(label, precision, bucket, *places).await {
                    Ok(ranking) => _ = values.labels.insert((&**label, precision, start), ranking),
                    // A label with more values than can be ranked is no verdict, and other rules go on.
                    Err(error) if matches!(error.kind(), ErrorKind::TooManyCounters { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(values)
    }

    /// Judges the bucket that starts here; `None` where it is not known, or too little to tell.
    pub(super) fn verdict(
        &self,
        rule: &AlertRule,
        start: Timestamp,
        state: &mut RuleState,
    ) -> Option<Verdict> {
        let precision = rule.precision;
        match &rule.condition {
            Condition::QuantileAbove { counter, measure, q, value, least } => {
                let found = self.distributions.get(&(precision, *measure, counter))?.get(&start)?;
                (found.count() >= *least).then_some(())?;
                let quantile = found.quantile(*q)?;
                Some(Verdict::new(quantile > *value, quantile, *value))
            }
            Condition::NewLabel { label, least, .. } => {
                let ranking = self.labels.get(&(&**label, precision, start))?;
                Some(state.learn(start, &ranking.values, *least))
            }
            condition => condition.judge(|counter| self.hits(precision, counter, start)),
        }
    }

    /// Returns the hits of a counter in the bucket that starts here, if these are known.
    fn hits(&self, precision: Precision, counter: &CounterName, start: Timestamp) -> Option<u64> {
        let series = self.hits.get(&(precision, counter))?.as_ref().ok()?;
        if series.is_unknown(start) {
            return None;
        }
        let found = series.samples.binary_search_by_key(&start, |sample| sample.start);
        Some(found.map_or(0, |place| series.samples[place].count))
    }
}

/// The counters of one precision that are needed, and the buckets in which one of them is.
struct Asked<'a> {
    range: Range<Timestamp>,
    counters: BTreeSet<&'a CounterName>,
}

fn asked<'a>(
    due: &[Due<'a>],
    counters_of: impl Fn(&Due<'a>) -> Vec<&'a CounterName>,
) -> BTreeMap<Precision, Asked<'a>> {
    let mut all: BTreeMap<Precision, Asked<'a>> = BTreeMap::new();
    for due in due {
        let counters = counters_of(due);
        if !counters.is_empty() {
            let empty = || Asked { range: due.range.clone(), counters: BTreeSet::new() };
            let asked = all.entry(due.rule.precision).or_insert_with(empty);
            asked.range = asked.range.start.min(due.range.start)..asked.range.end.max(due.range.end);
            asked.counters.extend(counters);
        }
    }
    all
}

/// The number of counters that one answer may have.
fn portion(precision: Precision, range: &Range<Timestamp>, most: u64) -> usize {
    let buckets = (range.end.as_unix() - range.start.as_unix()) / u64::from(precision.as_seconds());
    usize::try_from((most / buckets.max(1)).clamp(1, COUNTERS)).unwrap_or(1)
}

fn owned(counters: &[&CounterName]) -> Vec<CounterName> {
    counters.iter().map(|counter| (*counter).clone()).collect()
}
