//! Bucket values, read for all rules in batches, and the verdicts on them.

use std::collections::{BTreeMap, HashMap};

use counter_core::internal::distributions_by_counter;
use counter_core::visits::{Distribution, Extent, LabelRanking, Measure, Series, Stats, Unreadable};
use counter_core::{CounterName, Error, Precision, Timestamp};

use super::due::Due;
use super::expectation::Expectations;
use super::needed::Needed;
use super::state::RuleState;
use crate::rules::condition::Condition;
use crate::rules::rule::AlertRule;
use crate::rules::verdict::Verdict;

/// The hits, distributions and label values of all buckets to evaluate in a pass.
#[derive(Debug, Default)]
pub(super) struct Values<'a> {
    hits: HashMap<(Precision, &'a CounterName), Result<Series, Unreadable>>,
    distributions: HashMap<(Precision, Measure, &'a CounterName), BTreeMap<Timestamp, Distribution>>,
    labels: HashMap<(&'a str, Precision, Timestamp), LabelRanking>,
    /// What could not be read, completely or in part.
    unread: HashMap<Source<'a>, Unreadable>,
}

/// What a rule reads.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Source<'a> {
    Hits(Precision, &'a CounterName),
    Distributions(Precision, &'a CounterName),
    Label(Precision, &'a str),
}

/// The measures read for rules on quantiles.
const MEASURES: [Measure; 3] = [Measure::Time, Measure::Body, Measure::Size];

impl<'a> Values<'a> {
    /// Reads everything that the rules and the detectors need. Hits are read per precision, with a call to
    /// each shard for as many counters as fit into a response. Distributions are read in portions, and labels
    /// per bucket.
    ///
    /// # Errors
    /// Fails if the store can't be read.
    pub(super) async fn read(
        stats: &Stats,
        due: &[Due<'a>],
        expectations: &mut Expectations,
    ) -> Result<Self, Error> {
        let mut values = Self::default();
        let (mut judged, mut measured) = (Needed::default(), Needed::default());
        for Due { rule, range } in due {
            for counter in rule.condition.counters() {
                judged.add(rule.precision, counter, range);
            }
            if let Condition::QuantileAbove { counter, .. } = &rule.condition {
                measured.add(rule.precision, counter, range);
            }
        }
        let mut needed = judged.clone();
        expectations.add_needed(stats, due, &mut needed);
        for portion in needed.portions(Stats::MAX_SAMPLES) {
            let read = stats.series_many(&portion.names(), portion.precision, portion.range).await?;
            for (counter, mut series) in portion.counters.into_iter().zip(read) {
                let unread = series.as_ref().map_or_else(Some, |series| series.unreadable.as_ref()).cloned();
                let source = Source::Hits(portion.precision, counter);
                values.unread.extend(unread.map(|unread| (source, unread)));
                expectations.learn(portion.precision, counter, &series);
                let Some(range) = judged.range(portion.precision, counter) else { continue };
                if let Ok(series) = &mut series {
                    // A detector might have needed a longer range in order to catch up.
                    series.samples.retain(|sample| sample.start >= range.start);
                    series.samples.shrink_to_fit();
                }
                values.hits.insert((portion.precision, counter), series);
            }
        }
        for portion in measured.portions(Stats::MAX_DISTRIBUTIONS) {
            let (names, precision) = (portion.names(), portion.precision);
            let read = distributions_by_counter(stats, &names, precision, portion.range, &MEASURES).await?;
            for (counter, (of, unread)) in portion.counters.into_iter().zip(read) {
                let source = Source::Distributions(precision, counter);
                values.unread.extend(unread.map(|unread| (source, unread)));
                let of = MEASURES.iter().map(|measure| (precision, *measure, counter)).zip(of);
                values.distributions.extend(of);
            }
        }
        for due in due {
            let Condition::NewLabel { label, places, .. } = &due.rule.condition else { continue };
            let precision = due.rule.precision;
            for start in due.starts() {
                let bucket = start..start.plus(precision.as_seconds().into());
                let ranking = stats.label(label, precision, bucket, *places).await?;
                // Otherwise, the values of a site that was away would seem to be new.
                match ranking.unreadable.iter().find(|unreadable| unreadable.extent == Extent::Part) {
                    Some(unread) => {
                        values.unread.insert(Source::Label(precision, label), unread.clone());
                    }
                    None => {
                        values.labels.insert((&**label, precision, start), ranking);
                    }
                }
            }
        }
        Ok(values)
    }

    /// Returns why the bucket with this start can't be evaluated, if it could not be read.
    pub(super) fn unread<'b>(&'b self, rule: &'b AlertRule, start: Timestamp) -> Option<&'b Unreadable> {
        let precision = rule.precision;
        let of = |source| self.unread.get(&source).filter(|unread| unread.extent.includes(start));
        match &rule.condition {
            Condition::QuantileAbove { counter, .. } => of(Source::Distributions(precision, counter)),
            Condition::NewLabel { label, .. } => of(Source::Label(precision, label)),
            condition => {
                let mut counters = condition.all_counters().into_iter();
                counters.find_map(|counter| of(Source::Hits(precision, counter)))
            }
        }
    }

    /// Evaluates the bucket with this start. Returns `None` if it is unknown or has too few hits.
    pub(super) fn verdict(
        &self,
        rule: &AlertRule,
        start: Timestamp,
        state: &mut RuleState,
    ) -> Option<Verdict> {
        let precision = rule.precision;
        match &rule.condition {
            Condition::QuantileAbove { counter, measure, q, value, min_count } => {
                let found = self.distributions.get(&(precision, *measure, counter))?.get(&start)?;
                (found.count() >= *min_count).then_some(())?;
                let quantile = found.quantile(*q)?;
                Some(Verdict::new(quantile > *value, quantile, *value))
            }
            Condition::NewLabel { label, min_count, .. } => {
                let ranking = self.labels.get(&(&**label, precision, start))?;
                Some(state.learn(start, &ranking.values, *min_count))
            }
            condition => condition.evaluate(|counter| self.hits(precision, counter, start)),
        }
    }

    /// Returns the hits of a counter in the bucket with this start, if known.
    fn hits(&self, precision: Precision, counter: &CounterName, start: Timestamp) -> Option<u64> {
        let series = self.hits.get(&(precision, counter))?.as_ref().ok()?;
        if series.is_unknown(start) {
            return None;
        }
        let found = series.samples.binary_search_by_key(&start, |sample| sample.start);
        Some(found.map_or(0, |place| series.samples[place].count))
    }
}
