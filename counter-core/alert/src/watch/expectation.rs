//! Detectors for the rules of a watch that expect something: one for each counter, which is given its buckets as they close.
//!
//! Detectors are kept in the process only. A new detector reads the history of its counter, and for buckets finer than an hour
//! also the hours before it. A pass does so for some of the counters; rules about the others wait. So all processes come to
//! nearly the same bands, and the one that judges a bucket first decides.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use counter_core::visits::{Series, Stats, Unreadable};
use counter_core::{CounterName, Error, Precision, Sample, Timestamp};

use super::due::Due;
use super::needed::Needed;
use crate::detector::{Detector, Judgement};
use crate::rules::condition::Condition;
use crate::rules::rule::AlertRule;
use crate::rules::verdict::{Side, Verdict};

/// A counter at a precision, with the bits of the share of false alarms.
type Key = (Precision, CounterName, u64);

/// The detectors of a watch.
#[derive(Debug)]
pub(crate) struct Expectations {
    detectors: BTreeMap<Key, Watched>,
    /// The times that are not compared with others.
    holidays: Vec<Range<Timestamp>>,
    /// The instant up to which the store has all hits: a later bucket neither trains a detector nor is judged by it.
    pub(crate) complete: Timestamp,
}

#[derive(Debug)]
struct Watched {
    detector: Detector,
    /// The end of the last bucket that was read.
    read: Timestamp,
    /// The buckets that are to be judged, when they are read.
    due: Range<Timestamp>,
    /// True until the counter has its first hit. There is no silence before it.
    is_new: bool,
    /// The judgements of buckets that no watch is known to have judged.
    judgements: VecDeque<(Timestamp, Judgement)>,
}

/// The counters whose history is read in one pass.
const BEGUN: usize = 250;
/// The buckets of their history.
const HISTORY: u64 = 1000;
/// The hours of it, five weeks, for buckets that are finer.
const HOURS: u64 = 840;
/// The precision of these, in seconds.
const HOUR: u32 = 3600;

impl Condition {
    /// Returns the counter that the rule compares with its expectation, the side, and the share of false alarms.
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

    /// Creates the detectors that rules do not have yet, for a part of them.
    pub(crate) async fn begin(&mut self, stats: &Stats, due: &[Due<'_>]) -> Result<(), Error> {
        let mut new: BTreeMap<Key, Timestamp> = BTreeMap::new();
        for Due { rule, range } in due {
            if let Some(key) = rule.key().filter(|key| !self.detectors.contains_key(key)) {
                let end = new.entry(key).or_insert(range.end);
                *end = range.end.max(*end);
            }
        }
        let new: Vec<_> = new.into_iter().take(BEGUN).collect();
        for of_precision in new.chunk_by(|(one, _), (other, _)| one.0 == other.0) {
            self.create(stats, of_precision).await?;
        }
        Ok(())
    }

    /// Returns whether a bucket can be judged now, by the rules that expect something of it.
    pub(crate) fn has_begun(&self, rule: &AlertRule) -> bool {
        rule.key().is_none_or(|key| self.detectors.contains_key(&key))
    }

    /// Returns the judgement of a bucket, if there is one.
    pub(crate) fn verdict(&self, rule: &AlertRule, start: Timestamp) -> Option<Verdict> {
        let (_, side, _) = rule.condition.expectation()?;
        let judgements = &self.detectors.get(&rule.key()?)?.judgements;
        let (_, judgement) = judgements.iter().find(|(at, _)| *at == start)?;
        Some(verdict(side, judgement))
    }

    /// Adds what detectors need to come up to the end of the buckets that are due.
    pub(crate) fn need<'a>(&mut self, stats: &Stats, due: &[Due<'a>], needed: &mut Needed<'a>) {
        // What a pass that failed was about to read may be read by none.
        self.detectors.values_mut().for_each(|watched| watched.due = watched.read..watched.read);
        let mut asked: BTreeMap<Key, (&'a CounterName, Range<Timestamp>)> = BTreeMap::new();
        for Due { rule, range } in due {
            let (Some(key), Some((counter, ..))) = (rule.key(), rule.condition.expectation()) else {
                continue;
            };
            let (_, all) = asked.entry(key).or_insert_with(|| (counter, range.clone()));
            *all = all.start.min(range.start)..all.end.max(range.end);
        }
        for (key, (counter, range)) in asked {
            let Some(watched) = self.detectors.get_mut(&key) else { continue };
            watched.judgements.retain(|(start, _)| *start >= range.start);
            if watched.read < range.end {
                let precision = key.0;
                let last = range.end.minus(precision.as_seconds().into());
                let first = oldest(stats, precision, range.end).max(watched.read).min(last);
                needed.add(precision, counter, &(first..range.end));
                watched.due = range;
            }
        }
    }

    /// Passes the series of a counter to its detectors.
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

    /// Creates detectors of one precision, which learn their day and their week from hours where their own buckets are
    /// finer.
    async fn create(&mut self, stats: &Stats, new: &[(Key, Timestamp)]) -> Result<(), Error> {
        let Some(now) = new.iter().map(|(_, end)| *end).max() else { return Ok(()) };
        let precision = new[0].0.0;
        let width = u64::from(precision.as_seconds());
        let first = oldest(stats, precision, now).max(now.minus(HISTORY * width));
        let mut begun: Vec<_> = new
            .iter()
            .map(|((_, _, share), _)| Watched {
                detector: Detector::of_counts(precision).false_alarms(f64::from_bits(*share)),
                read: first,
                due: first..first,
                is_new: true,
                judgements: VecDeque::new(),
            })
            .collect();
        let hours = stats.grid().counts.of_width(HOUR).map(|kept| kept.precision);
        if let Some(hours) = hours.filter(|hours| width < u64::from(hours.as_seconds())) {
            let end = hours.bucket(first).start;
            let range = end.minus(HOURS * u64::from(HOUR)).max(oldest(stats, hours, now))..end;
            let names: Vec<_> = new.iter().map(|((_, counter, _), _)| counter.clone()).collect();
            let read =
                if range.is_empty() { Vec::new() } else { stats.series_many(&names, hours, range).await? };
            for (watched, series) in begun.iter_mut().zip(read) {
                for hour in known(&self.holidays, self.complete, &series) {
                    watched.is_new &= hour.count == 0;
                    if !watched.is_new {
                        let mean = hour.count as f64 * width as f64 / f64::from(HOUR);
                        watched.detector.learn(hour.start, HOUR.into(), mean);
                    }
                }
            }
        }
        self.detectors.extend(new.iter().map(|(key, _)| key.clone()).zip(begun));
        Ok(())
    }
}

impl Watched {
    /// Learns the next buckets, and keeps the judgements of those that are due.
    fn learn(&mut self, samples: &[Sample]) {
        let next = samples.iter().filter(|sample| (self.read..self.due.end).contains(&sample.start));
        for sample in next {
            self.is_new &= sample.count == 0;
            if self.is_new {
                continue;
            }
            let judgement = self.detector.observe(sample.start, sample.count as f64);
            if let Some(judgement) = judgement.filter(|_| sample.start >= self.due.start) {
                self.judgements.push_back((sample.start, judgement));
            }
        }
        self.read = self.read.max(self.due.end);
    }
}

/// The buckets of a series that are known and complete, and in no holiday.
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

/// Returns the start of the oldest bucket in retention.
fn oldest(stats: &Stats, precision: Precision, now: Timestamp) -> Timestamp {
    let kept = stats.reach().counts.of_width(precision.as_seconds());
    kept.map_or(Timestamp::MIN, |kept| kept.oldest(now))
}

fn verdict(side: Side, judgement: &Judgement) -> Verdict {
    let is_below = side == Side::Low || side == Side::Either && judgement.value < judgement.expected;
    let (is_met, bound) = match side {
        Side::Silent => (judgement.is_silent(), judgement.missed),
        _ if is_below => (judgement.is_low(), judgement.lower),
        _ => (judgement.is_high(), judgement.upper),
    };
    Verdict { expected: Some(judgement.into()), ..Verdict::new(is_met, judgement.value, bound) }
}
