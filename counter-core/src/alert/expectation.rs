//! Detectors for the rules of a watch that expect something: one for each counter, which is given its buckets as they close.
//!
//! Detectors are in the process alone. One that begins reads what the store has of its counter, and of its hours where its
//! buckets are finer, for a part of the counters in each pass; rules about the others wait. So all processes come to nearly
//! the same bands, and the one that judges a bucket first decides.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::condition::Condition;
use super::expected::Side;
use super::judge::Due;
use super::rule::AlertRule;
use super::verdict::Verdict;
use crate::forecast::{Detector, Judgement};
use crate::visits::{Series, Stats, Unreadable};
use crate::{CounterName, Error, Precision, Sample, Timestamp};

/// A counter at a precision, with the bits of the share of false alarms.
type Key = (Precision, CounterName, u64);

/// The detectors of a watch.
#[derive(Debug, Default)]
pub(crate) struct Expectations {
    detectors: BTreeMap<Key, Watched>,
    /// The times that are not compared with others.
    holidays: Vec<Range<Timestamp>>,
}

#[derive(Debug)]
struct Watched {
    detector: Detector,
    /// The end of the last bucket that was read.
    read: Timestamp,
    /// Set until it has had a hit: what comes before the first one is no silence.
    is_new: bool,
    /// The judgements of buckets that no watch is known to have judged.
    judgements: VecDeque<(Timestamp, Judgement)>,
}

/// A counter whose buckets are due, from the first that is to be judged to the end of the last.
type Behind = (Key, Range<Timestamp>);

/// The counters whose history is read in one pass.
const BEGUN: usize = 250;
/// The buckets of their history.
const HISTORY: u64 = 1000;
/// The hours of it, five weeks, for buckets that are finer.
const HOURS: u64 = 840;
/// The precision of these, in seconds.
const HOUR: u32 = 3600;
/// The counters that one read asks for.
const COUNTERS: u64 = 1000;

impl Condition {
    /// Returns the counter of which a bucket is compared with what is expected, the side, and the share of false alarms.
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
        Self { holidays, ..Self::default() }
    }

    /// Brings the detectors of rules up to the end of the buckets that are due.
    pub(crate) async fn observe(&mut self, stats: &Stats, due: &[Due<'_>]) -> Result<(), Error> {
        let mut asked: BTreeMap<Precision, BTreeMap<Key, Range<Timestamp>>> = BTreeMap::new();
        for Due { rule, range } in due {
            let Some(key) = rule.key() else { continue };
            let all = asked.entry(rule.precision).or_default().entry(key).or_insert_with(|| range.clone());
            *all = all.start.min(range.start)..all.end.max(range.end);
        }
        let mut places = BEGUN;
        for (precision, asked) in asked {
            let is_new = |(key, _): &(&Key, _)| !self.detectors.contains_key(*key);
            let new: Vec<Behind> =
                asked.iter().filter(is_new).map(|(key, range)| (key.clone(), range.clone())).collect();
            let new = &new[..new.len().min(places)];
            places -= new.len();
            self.begin(stats, precision, new).await?;
            let mut behind = Vec::new();
            for due in asked {
                let Some(watched) = self.detectors.get_mut(&due.0) else { continue };
                watched.judgements.retain(|(start, _)| *start >= due.1.start);
                if watched.read < due.1.end {
                    behind.push((watched.read, due));
                }
            }
            behind.sort_by_key(|(read, _)| *read);
            self.follow(stats, precision, behind).await?;
        }
        Ok(())
    }

    /// Returns whether a bucket can be judged now, by the rules that expect something of it.
    pub(crate) fn has_begun(&self, rule: &AlertRule) -> bool {
        rule.key().is_none_or(|key| self.detectors.contains_key(&key))
    }

    /// Returns what is said of a bucket, if anything is.
    pub(crate) fn verdict(&self, rule: &AlertRule, start: Timestamp) -> Option<Verdict> {
        let (_, side, _) = rule.condition.expectation()?;
        let judgements = &self.detectors.get(&rule.key()?)?.judgements;
        let (_, judgement) = judgements.iter().find(|(at, _)| *at == start)?;
        Some(verdict(side, judgement))
    }

    /// Creates detectors, which learn their day and their week from hours where their own buckets are finer.
    async fn begin(&mut self, stats: &Stats, precision: Precision, new: &[Behind]) -> Result<(), Error> {
        let Some(now) = new.iter().map(|(_, range)| range.end).max() else { return Ok(()) };
        let width = u64::from(precision.as_seconds());
        let first = oldest(stats, precision, now).max(now.minus(HISTORY * width));
        let mut begun: Vec<_> = new
            .iter()
            .map(|((_, _, share), _)| Watched {
                detector: Detector::of_counts(precision).false_alarms(f64::from_bits(*share)),
                read: first,
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
                for hour in self.known(&series) {
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

    /// Reads what came since, by one exchange for a thousand counters that were read as far.
    async fn follow(
        &mut self,
        stats: &Stats,
        precision: Precision,
        behind: Vec<(Timestamp, Behind)>,
    ) -> Result<(), Error> {
        let width = u64::from(precision.as_seconds());
        let mut behind = behind.as_slice();
        while let Some((read, (_, range))) = behind.first() {
            let end = behind.iter().map(|(_, (_, range))| range.end).max().unwrap_or(range.end);
            let start = oldest(stats, precision, end).max(*read).min(end.minus(width));
            let buckets = (end.as_unix() - start.as_unix()).div_ceil(width).max(1);
            let most = usize::try_from((Stats::MAX_SAMPLES / buckets).clamp(1, COUNTERS)).unwrap_or(1);
            let (now, later) = behind.split_at(behind.len().min(most));
            behind = later;
            let names: Vec<_> = now.iter().map(|(_, ((_, counter, _), _))| counter.clone()).collect();
            let all = stats.series_many(&names, precision, start..end).await?;
            for ((_, (key, range)), series) in now.iter().zip(all) {
                let samples: Vec<_> = self.known(&series).collect();
                let Some(watched) = self.detectors.get_mut(key) else { continue };
                for sample in samples {
                    watched.is_new &= sample.count == 0;
                    if sample.start < watched.read || watched.is_new || sample.start >= range.end {
                        continue;
                    }
                    let judgement = watched.detector.observe(sample.start, sample.count as f64);
                    if let Some(judgement) = judgement.filter(|_| sample.start >= range.start) {
                        watched.judgements.push_back((sample.start, judgement));
                    }
                }
                watched.read = range.end;
            }
        }
        Ok(())
    }

    /// The buckets of a series that are known, and that are no holiday.
    fn known(&self, series: &Result<Series, Unreadable>) -> impl Iterator<Item = Sample> {
        let width = series.as_ref().map_or(0, |series| series.precision.as_seconds().into());
        let samples = series.iter().flat_map(Series::zero_filled);
        samples.filter(move |sample| !self.is_holiday(sample.start..sample.start.plus(width)))
    }

    fn is_holiday(&self, bucket: Range<Timestamp>) -> bool {
        self.holidays.iter().any(|holiday| holiday.start < bucket.end && bucket.start < holiday.end)
    }
}

/// The oldest bucket that is kept at this instant.
fn oldest(stats: &Stats, precision: Precision, now: Timestamp) -> Timestamp {
    stats.reach().counts.retention_or_default(precision).oldest(now)
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
