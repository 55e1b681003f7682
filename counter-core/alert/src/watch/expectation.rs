//! Detectors for the rules on unusual values, with one detector for each counter. They observe buckets as
//! they close.
//!
//! Detectors only live in the process. A new detector reads the history of the counter and, if the buckets
//! are finer than an hour, also the hours prior to this. We limit the number of new detectors in a pass, so
//! some rules need to wait. All processes will get nearly the same bands, and the verdict of the fastest
//! process counts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use counter_core::visits::{Series, Stats, Unreadable};
use counter_core::{CounterName, Error, Precision, Sample, Timestamp};

use super::due::Due;
use super::needed::Needed;
use crate::detector::{Detector, Evaluation};
use crate::rules::condition::Condition;
use crate::rules::rule::AlertRule;
use crate::rules::verdict::{Side, Verdict};

/// The key of a detector: the precision, the counter, and the bits of the `f64` false alarm rate.
type Key = (Precision, CounterName, u64);

/// The detectors of a watch.
#[derive(Debug)]
pub(crate) struct Expectations {
    detectors: BTreeMap<Key, Watched>,
    /// The times to exclude from training and evaluation.
    holidays: Vec<Range<Timestamp>>,
    /// The instant up to which the store has all hits. Later buckets will not be passed to detectors.
    pub(crate) complete: Timestamp,
}

#[derive(Debug)]
struct Watched {
    detector: Detector,
    /// The end of the latest bucket that was read.
    read: Timestamp,
    /// The buckets to evaluate in the next read.
    due: Range<Timestamp>,
    /// True until the counter gets a hit. There can't be a silence until then.
    is_new: bool,
    /// The evaluations of buckets that may still be needed for a verdict.
    evaluations: VecDeque<(Timestamp, Evaluation)>,
}

/// The maximum number of counters to read the history for in a pass.
const MAX_NEW_DETECTORS: usize = 250;
/// The maximum number of past buckets that a new detector learns from.
const HISTORY_BUCKETS: u64 = 1000;
/// The number of past hours that a new detector learns from if the buckets are finer than an hour: five
/// weeks.
const HISTORY_HOURS: u64 = 840;
/// The width of an hour, in seconds.
const HOUR: u32 = 3600;

impl Condition {
    /// Returns the counter to compare with the expectation, the side, and the false alarm rate.
    fn expectation(&self) -> Option<(&CounterName, Side, f64)> {
        match self {
            Self::Unusual { counter, side, false_alarms } => Some((counter, *side, *false_alarms)),
            _ => None,
        }
    }
}

impl AlertRule {
    fn key(&self) -> Option<Key> {
        let (counter, _, false_alarms) = self.condition.expectation()?;
        Some((self.precision, counter.clone(), false_alarms.to_bits()))
    }
}

impl Expectations {
    pub(crate) fn new(holidays: Vec<Range<Timestamp>>) -> Self {
        Self { detectors: BTreeMap::new(), holidays, complete: Timestamp::MAX }
    }

    /// Creates missing detectors, up to a limit.
    pub(crate) async fn create_missing(&mut self, stats: &Stats, due: &[Due<'_>]) -> Result<(), Error> {
        let mut new: BTreeMap<Key, Timestamp> = BTreeMap::new();
        for Due { rule, range } in due {
            if let Some(key) = rule.key().filter(|key| !self.detectors.contains_key(key)) {
                let end = new.entry(key).or_insert(range.end);
                *end = range.end.max(*end);
            }
        }
        let new: Vec<_> = new.into_iter().take(MAX_NEW_DETECTORS).collect();
        for of_precision in new.chunk_by(|(one, _), (other, _)| one.0 == other.0) {
            self.create(stats, of_precision).await?;
        }
        Ok(())
    }

    /// Removes the detectors that none of these rules needs.
    pub(crate) fn retain(&mut self, rules: &[AlertRule]) {
        let needed: BTreeSet<_> = rules.iter().filter_map(AlertRule::key).collect();
        self.detectors.retain(|key, _| needed.contains(key));
    }

    /// Returns `true` if the rule can be evaluated now, i.e. if the detector exists or is not needed.
    pub(crate) fn is_ready(&self, rule: &AlertRule) -> bool {
        rule.key().is_none_or(|key| self.detectors.contains_key(&key))
    }

    /// Returns the verdict on a bucket, if there is an evaluation.
    pub(crate) fn verdict(&self, rule: &AlertRule, start: Timestamp) -> Option<Verdict> {
        let (_, side, _) = rule.condition.expectation()?;
        let evaluations = &self.detectors.get(&rule.key()?)?.evaluations;
        let (_, evaluation) = evaluations.iter().find(|(at, _)| *at == start)?;
        Some(verdict(side, evaluation))
    }

    /// Adds the buckets that detectors need in order to catch up with the due buckets.
    pub(crate) fn add_needed<'a>(&mut self, stats: &Stats, due: &[Due<'a>], needed: &mut Needed<'a>) {
        // If the previous pass failed, these buckets may never have been read.
        self.detectors.values_mut().for_each(|watched| watched.due = watched.read..watched.read);
        let mut requested: BTreeMap<Key, (&'a CounterName, Range<Timestamp>)> = BTreeMap::new();
        for Due { rule, range } in due {
            let (Some(key), Some((counter, ..))) = (rule.key(), rule.condition.expectation()) else {
                continue;
            };
            let (_, all) = requested.entry(key).or_insert_with(|| (counter, range.clone()));
            *all = all.start.min(range.start)..all.end.max(range.end);
        }
        for (key, (counter, range)) in requested {
            let Some(watched) = self.detectors.get_mut(&key) else { continue };
            watched.evaluations.retain(|(start, _)| *start >= range.start);
            if watched.read < range.end {
                let precision = key.0;
                let last = range.end.minus(precision.as_seconds().into());
                let first = oldest(stats, precision, range.end).max(watched.read).min(last);
                needed.add(precision, counter, &(first..range.end));
                watched.due = range;
            }
        }
    }

    /// Passes a series to the detectors of the counter.
    pub(crate) fn learn(
        &mut self,
        precision: Precision,
        counter: &CounterName,
        series: &Result<Series, Unreadable>,
    ) {
        let of_share = |share| (precision, counter.clone(), share);
        let mut detectors = self.detectors.range_mut(of_share(u64::MIN)..=of_share(u64::MAX)).peekable();
        if detectors.peek().is_none() {
            return;
        }
        let samples: Vec<_> = known(&self.holidays, self.complete, series).collect();
        for (_, watched) in detectors {
            watched.learn(&samples);
        }
    }

    /// Creates detectors for a precision. If the buckets are finer than an hour, the detectors will learn the
    /// day and the week from hours.
    async fn create(&mut self, stats: &Stats, new: &[(Key, Timestamp)]) -> Result<(), Error> {
        let Some(now) = new.iter().map(|(_, end)| *end).max() else { return Ok(()) };
        let precision = new[0].0.0;
        let width = u64::from(precision.as_seconds());
        let first = oldest(stats, precision, now).max(now.minus(HISTORY_BUCKETS * width));
        let mut created: Vec<_> = new
            .iter()
            .map(|((_, _, share), _)| Watched {
                detector: Detector::of_counts(precision).false_alarms(f64::from_bits(*share)),
                read: first,
                due: first..first,
                is_new: true,
                evaluations: VecDeque::new(),
            })
            .collect();
        let hours = stats.grid().counts.of_width(HOUR).map(|retention| retention.precision);
        if let Some(hours) = hours.filter(|hours| width < u64::from(hours.as_seconds())) {
            let end = hours.bucket(first).start;
            let range = end.minus(HISTORY_HOURS * u64::from(HOUR)).max(oldest(stats, hours, now))..end;
            let names: Vec<_> = new.iter().map(|((_, counter, _), _)| counter.clone()).collect();
            let read =
                if range.is_empty() { Vec::new() } else { stats.series_many(&names, hours, range).await? };
            for (watched, series) in created.iter_mut().zip(read) {
                for hour in known(&self.holidays, self.complete, &series) {
                    watched.is_new &= hour.count == 0;
                    if !watched.is_new {
                        let mean = hour.count as f64 * width as f64 / f64::from(HOUR);
                        watched.detector.learn(hour.start, HOUR.into(), mean);
                    }
                }
            }
        }
        self.detectors.extend(new.iter().map(|(key, _)| key.clone()).zip(created));
        Ok(())
    }
}

impl Watched {
    /// Observes the next buckets, and keeps the evaluations of due buckets.
    fn learn(&mut self, samples: &[Sample]) {
        let next = samples.iter().filter(|sample| (self.read..self.due.end).contains(&sample.start));
        for sample in next {
            self.is_new &= sample.count == 0;
            if self.is_new {
                continue;
            }
            let evaluation = self.detector.observe(sample.start, sample.count as f64);
            if let Some(evaluation) = evaluation.filter(|_| sample.start >= self.due.start) {
                self.evaluations.push_back((sample.start, evaluation));
            }
        }
        self.read = self.read.max(self.due.end);
    }
}

/// Returns the buckets of a series to pass to a detector: those that could be read, that don't overlap a
/// holiday, and that end by `complete`, so that the store has all of their hits.
fn known(
    holidays: &[Range<Timestamp>],
    complete: Timestamp,
    series: &Result<Series, Unreadable>,
) -> impl Iterator<Item = Sample> {
    let width = series.as_ref().map_or(0, |series| series.precision.as_seconds().into());
    let is_holiday = move |sample: &Sample| {
        let end = sample.start.plus(width);
        holidays.iter().any(|holiday| holiday.start < end && sample.start < holiday.end)
    };
    let is_complete = move |sample: &Sample| sample.start.plus(width) <= complete;
    let samples = series.iter().flat_map(Series::zero_filled);
    samples.filter(move |sample| is_complete(sample) && !is_holiday(sample))
}

/// Returns the start of the oldest bucket in the retention period.
fn oldest(stats: &Stats, precision: Precision, now: Timestamp) -> Timestamp {
    let retained = stats.reach().counts.of_width(precision.as_seconds());
    retained.map_or(Timestamp::MIN, |retention| retention.oldest(now))
}

fn verdict(side: Side, evaluation: &Evaluation) -> Verdict {
    let is_below = side == Side::Low || side == Side::Either && evaluation.value < evaluation.expected;
    let (is_met, bound) = match side {
        Side::Silent => (evaluation.is_silent(), evaluation.missed),
        _ if is_below => (evaluation.is_low(), evaluation.lower),
        _ => (evaluation.is_high(), evaluation.upper),
    };
    Verdict { expected: Some(evaluation.into()), ..Verdict::new(is_met, evaluation.value, bound) }
}
