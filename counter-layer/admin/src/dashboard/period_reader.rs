//! Reads totals and visitors of the period of a page, and of the compared period.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use counter_core::time::{Bucket, Grid, Retention};
use counter_core::visits::{Coverage, Distributions, Measure, Uniques};
use counter_core::{CounterName, Error, Precision, Precisions, Stats, Timestamp};
use counter_layer::internal::HITS;
use futures_util::future::{try_join, try_join_all, try_join3};
use tokio::sync::OnceCell;

use super::reader::Reader;
use crate::api::read::people_coverage;
use crate::dashboard::format::numbers::{self, Change};
use crate::dashboard::view::buckets::Buckets;
use crate::dashboard::view::cover::{Cover, Part};
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::period::{DAY, length};
use crate::dashboard::view::retained::Retained;
use crate::dashboard::view::timeline::Timeline;
use crate::dashboard::view::union::Union;
use crate::dashboard::view::view::View;
use crate::kind::Kind;

/// Reads numbers of the period of a view.
#[derive(Debug)]
pub(crate) struct PeriodReader<'a> {
    pub(crate) reader: &'a Reader<'a>,
    pub(crate) timeline: Timeline,
    now: Timestamp,
    /// `None` if the period ends or starts within a bucket that is too long to count it in part.
    period: Option<Cover>,
    /// The compared period, up to the same elapsed time.
    compared: Option<Cover>,
    /// The same for views, if whole buckets of views cover the period.
    views: Option<(Cover, Option<Cover>)>,
    counts_views: OnceCell<bool>,
    /// The counter of the page, and all of its distributions.
    counter: Option<CounterName>,
    measured: OnceCell<Option<PeriodDistributions>>,
    /// The people of this counter, which the cards and the chart show.
    people: OnceCell<PeriodPeople>,
}

/// The people of counters in the period.
#[derive(Clone, Debug)]
pub(crate) struct PeriodPeople {
    /// By counter, or `None` if the buckets of visitors do not fit the period.
    pub(crate) all: Option<Vec<Option<Uniques>>>,
    /// Those of the period and of the compared period by counter.
    pub(crate) compared: Vec<Before<(u64, u64)>>,
    /// Whether the people of the first counter were counted in both periods, if it has hits. Labels may begin to count people
    /// later than hits.
    pub(crate) coverage: Coverage,
}

impl PeriodPeople {
    /// Sets the coverage. Only new counters can be compared if it is not complete.
    fn with(mut self, coverage: Coverage) -> Self {
        if coverage != Coverage::Complete {
            let known = self.compared.iter_mut().filter(|before| !before.is_new());
            known.for_each(|before| *before = Before::Unknown);
        }
        Self { coverage, ..self }
    }
}

/// The distributions of a counter, by measure.
#[derive(Clone, Debug)]
pub(crate) struct PeriodDistributions {
    pub(crate) retained: Retained,
    pub(crate) all: Vec<Distributions>,
    /// The distributions of the compared period. Empty if they are not retained.
    pub(crate) compared: Vec<Distributions>,
}

/// The count of a counter in the compared period, or the reason why it can't be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before<T = u64> {
    Known(T),
    /// The first hit of the counter was in the period of the page or later, although others were counted before.
    New(Timestamp),
    /// Counting began too late for a comparison.
    Since(Timestamp),
    /// It can't be read, is past retention, or is not compared.
    Unknown,
}

impl<T> Before<T> {
    /// Returns what follows from a known value.
    fn and_then<U>(self, map: impl FnOnce(T) -> Option<U>) -> Before<U> {
        match self {
            Self::Known(value) => map(value).map_or(Before::Unknown, Before::Known),
            Self::New(start) => Before::New(start),
            Self::Since(start) => Before::Since(start),
            Self::Unknown => Before::Unknown,
        }
    }

    pub(crate) fn known(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::New(_) | Self::Since(_) | Self::Unknown => None,
        }
    }

    /// Returns the time when counting began, if that was too late for a comparison.
    pub(crate) const fn since(&self) -> Option<Timestamp> {
        match self {
            Self::New(start) | Self::Since(start) => Some(*start),
            Self::Known(_) | Self::Unknown => None,
        }
    }

    pub(crate) const fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }
}

impl Before {
    /// Returns the count if it can be compared.
    pub(crate) const fn total(self) -> Option<u64> {
        match self {
            Self::Known(total) => Some(total),
            Self::New(_) => Some(0),
            Self::Since(_) | Self::Unknown => None,
        }
    }

    /// Adds the count of the period of the page.
    pub(crate) fn with(self, now: Option<u64>) -> Before<(u64, u64)> {
        self.and_then(|before| Some((now?, before)))
    }
}

impl Before<(u64, u64)> {
    /// Formats the change of a counter. That of a facet has no color, because e.g. more errors are not an improvement.
    pub(crate) fn change_of(self, counter: &CounterName) -> Option<Change> {
        self.change().map(|change| if Kind::Facet.has(counter) { change.neutral() } else { change })
    }

    /// Formats the change.
    pub(crate) fn change(self) -> Option<Change> {
        match self {
            Self::Known((now, before)) => numbers::change(now, before),
            Self::New(_) => Some(Change::new()),
            Self::Since(_) | Self::Unknown => None,
        }
    }
}

impl<'a> PeriodReader<'a> {
    pub(crate) fn new(reader: &'a Reader<'a>, view: &View, now: Timestamp) -> Self {
        let (timeline, stats) = (view.timeline(now), reader.stats);
        // Numbers of recent days should not depend on the archive, even if its buckets would fit better.
        let cover = |kept: fn(&Grid) -> Precisions, range: &Range<Timestamp>| {
            let (near, all) = (kept(stats.grid()), kept(stats.reach()));
            let is_recent = near.iter().any(|part| part.oldest(now) <= range.start);
            let near = is_recent.then(|| Cover::new(&near, range.clone(), now)).flatten();
            near.or_else(|| Cover::new(&all, range.clone(), now))
        };
        let covers = |range: &Range<Timestamp>| {
            (cover(|grid| grid.counts.clone(), range), cover(|grid| grid.counts.of_views(), range))
        };
        let range = timeline.buckets.range();
        let (period, views) = covers(&range);
        let (compared, views_before) = timeline.elapsed(now).as_ref().map(covers).unwrap_or_default();
        let views = views.filter(|cover| cover.is_exact(&range, now)).map(|cover| (cover, views_before));
        let counter = view.chart.counters.first().cloned();
        let (counts_views, measured, people) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { reader, timeline, now, period, compared, views, counts_views, counter, measured, people }
    }

    /// Reads the count of each counter, or `None` for unreadable counters.
    pub(crate) async fn totals(&self, counters: &[CounterName]) -> Result<Vec<Option<u64>>, Error> {
        let cover = match has_views(counters) {
            true => self.views.as_ref().map(|(period, _)| period),
            false => self.period.as_ref(),
        };
        self.sums(cover, counters).await
    }

    /// Returns `true` if the site counts views, and began to before the period or together with its hits.
    pub(crate) async fn counts_views(&self) -> Result<bool, Error> {
        let Ok(hits) = CounterName::new(HITS) else { return Ok(false) };
        let Some(views) = hits.views().filter(|_| self.views.is_some()) else { return Ok(false) };
        let read = || async {
            let (both, range) = ([hits, views], self.timeline.buckets.range());
            let coverage = self.reader.stats.coverage(&both, range, self.now.plus(1));
            let (lifetimes, coverage) = try_join(self.reader.lifetimes(&both[1..]), coverage).await?;
            let is_whole = match (coverage[0], coverage[1]) {
                (_, Coverage::Complete) => true,
                (Coverage::Since(hits), Coverage::Since(views)) => views <= hits.plus(DAY),
                _ => false,
            };
            Ok(is_whole && lifetimes[0].is_some_and(|views| views > 0))
        };
        self.counts_views.get_or_try_init(read).await.copied()
    }

    /// Reads the counts in the compared period, even if counting began in it, or `None` if they are unknown.
    async fn totals_before(&self, counters: &[CounterName]) -> Result<Vec<Option<u64>>, Error> {
        let cover = match has_views(counters) {
            true => self.views.as_ref().and_then(|(_, compared)| compared.as_ref()),
            false => self.compared.as_ref(),
        };
        self.sums(cover, counters).await
    }

    /// Reads the counts in the compared period, or when counting began if that was too late for a comparison.
    pub(crate) async fn before(&self, counters: &[CounterName]) -> Result<Vec<Before>, Error> {
        let (totals, coverage) = try_join(self.totals_before(counters), self.coverage(counters)).await?;
        let before = |(total, coverage): (_, Before<()>)| coverage.and_then(|()| total);
        Ok(totals.into_iter().zip(coverage).map(before).collect())
    }

    /// Returns whether these counters were counted in the whole compared period. A facet was if all hits were, because it can
    /// be 0 for any time.
    async fn coverage(&self, counters: &[CounterName]) -> Result<Vec<Before<()>>, Error> {
        let (Some(compared), Ok(hits)) = (&self.timeline.compared, CounterName::new(HITS)) else {
            return Ok(vec![Before::Unknown; counters.len()]);
        };
        // The counter of all hits or views.
        let views = hits.views().unwrap_or_else(|| hits.clone());
        let site = |counter: &CounterName| if counter.viewed().is_some() { &views } else { &hits };
        let whole = |counter| if Kind::Facet.has(counter) { &hits } else { counter };
        let wholes: BTreeSet<_> = counters.iter().flat_map(|one| [whole(one), site(one)]).cloned().collect();
        let names: Vec<_> = wholes.into_iter().collect();
        let end = self.timeline.buckets.end.min(self.now);
        let found = self.reader.stats.coverage(&names, compared.range(), end).await?;
        let found: BTreeMap<_, _> = names.into_iter().zip(found).collect();
        let start = self.timeline.buckets.range().start;
        let before = |counter| match found[whole(counter)] {
            Coverage::Complete => Before::Known(()),
            Coverage::Since(first) => {
                let is_new = first >= start && found[site(counter)] == Coverage::Complete;
                if is_new { Before::New(first) } else { Before::Since(first) }
            }
            _ => Before::Unknown,
        };
        self.keep_new(counters, counters.iter().map(before).collect()).await
    }

    /// Keeps [`Before::New`] only for counters whose hits are all since the start of the period, because coverage does not
    /// include earlier times.
    async fn keep_new(
        &self,
        counters: &[CounterName],
        mut coverage: Vec<Before<()>>,
    ) -> Result<Vec<Before<()>>, Error> {
        let new = counters.iter().zip(&coverage).filter(|(_, before)| before.is_new());
        let new: Vec<_> = new.map(|(counter, _)| counter.clone()).collect();
        if new.is_empty() {
            return Ok(coverage);
        }
        let since = self.timeline.buckets.range().start..self.now.plus(1);
        let cover = Cover::new(&self.reader.stats.precisions_of(&new), since.clone(), self.now);
        let cover = cover.filter(|cover| cover.is_exact(&since, self.now));
        // Hits that arrive between the two reads must not be missing in the second one.
        let all = self.reader.lifetimes(&new).await?;
        let since = self.sums(cover.as_ref(), &new).await?;
        let is_new = all.into_iter().zip(since).map(|(all, since)| all.is_some() && all <= since);
        let candidates = coverage.iter_mut().filter(|before| before.is_new());
        for (before, _) in candidates.zip(is_new).filter(|(_, is_new)| !is_new) {
            *before = before.since().map_or(Before::Unknown, Before::Since);
        }
        Ok(coverage)
    }

    async fn sums(&self, cover: Option<&Cover>, counters: &[CounterName]) -> Result<Vec<Option<u64>>, Error> {
        let Some(cover) = cover else { return Ok(vec![None; counters.len()]) };
        let part = |part: &Part| self.reader.totals(counters, part.precision, part.buckets.clone());
        let parts = try_join_all(cover.parts.iter().map(part)).await?;
        let totals = |index: usize| parts.iter().map(move |part| part[index].as_ref());
        Ok((0..counters.len()).map(totals).map(|totals| cover.sum(totals)).collect())
    }

    /// Reads the visitors of these counters, limited to the number of counters that can be read in a single call.
    /// Returns `None` if the buckets of visitors do not fit the period.
    pub(crate) async fn visitors(
        &self,
        counters: &[CounterName],
    ) -> Result<Option<Vec<Option<Uniques>>>, Error> {
        let union = self
            .visitor_precisions(counters)
            .and_then(|kept| self.union(&kept, &self.timeline.buckets.range()));
        let Some(union) = union else { return Ok(None) };
        let first = &counters[..counters.len().min(limit(&union.buckets))];
        let mut visitors = match first.is_empty() {
            true => Vec::new(),
            false => self.reader.uniques(first, &[union.buckets]).await?,
        };
        visitors.iter_mut().flatten().for_each(|uniques| uniques.is_upper_bound |= union.is_wider);
        visitors.resize(counters.len(), None);
        Ok(Some(visitors))
    }

    /// Returns an estimate of visitors, which is not above the hits of this period that it is an estimate for.
    pub(crate) fn at_most(&self, visitors: u64, hits: Option<u64>) -> u64 {
        let range = self.timeline.buckets.range();
        let is_exact = self.period.as_ref().is_some_and(|cover| cover.is_exact(&range, self.now));
        hits.filter(|_| is_exact).map_or(visitors, |hits| visitors.min(hits))
    }

    /// Returns `true` if the buckets of visitors are longer than the period.
    pub(crate) fn is_wider(&self) -> bool {
        let kept = &self.reader.stats.reach().visitors;
        self.union(kept, &self.timeline.buckets.range()).is_some_and(|union| union.is_wider)
    }

    /// Returns the precisions in which all of these counters have visitors, or `None` if one of them never has.
    pub(crate) fn visitor_precisions(&self, counters: &[CounterName]) -> Option<Cow<'a, Precisions>> {
        let kept = &self.reader.stats.reach().visitors;
        if !counters.iter().all(|counter| Metric::People.has(counter)) {
            return None;
        }
        Some(match counters.iter().any(|counter| counter.label().is_some()) {
            true => Cow::Owned(kept.of_label_values()),
            false => Cow::Borrowed(kept),
        })
    }

    fn union(&self, kept: &Precisions, range: &Range<Timestamp>) -> Option<Union> {
        Union::of(kept, range, self.now)
    }

    /// Reads the people of counters in this period and in the compared period. Those of the counter of the page are only read
    /// once.
    pub(crate) async fn people(&self, counters: &[CounterName]) -> Result<PeriodPeople, Error> {
        match (&self.counter, counters) {
            (Some(of_page), [counter]) if counter == of_page => {
                self.people.get_or_try_init(|| self.read_people(counters)).await.cloned()
            }
            _ => self.read_people(counters).await,
        }
    }

    async fn read_people(&self, counters: &[CounterName]) -> Result<PeriodPeople, Error> {
        let coverage = async {
            match counters.first() {
                Some(counter) => self.people_coverage(counter).await,
                None => Ok(Coverage::Unknown),
            }
        };
        let compared = self.compared_visitors(counters);
        let (all, compared, coverage) = try_join3(self.visitors(counters), compared, coverage).await?;
        Ok(PeriodPeople { all, compared, coverage: Coverage::Complete }.with(coverage))
    }

    /// Like [`people`](Self::people), given the coverage of a frequent value of the label.
    pub(crate) async fn people_with(
        &self,
        counters: &[CounterName],
        coverage: Coverage,
    ) -> Result<PeriodPeople, Error> {
        let compared = self.compared_visitors(counters);
        let (all, compared) = try_join(self.visitors(counters), compared).await?;
        Ok(PeriodPeople { all, compared, coverage: Coverage::Complete }.with(coverage))
    }

    /// Reads the visitors of counters in this period and in the compared period. If the period is still running, both are
    /// without the last bucket, because the visitors of a part of a bucket are unknown.
    async fn compared_visitors(&self, counters: &[CounterName]) -> Result<Vec<Before<(u64, u64)>>, Error> {
        let unions = self.compared_unions(counters).unwrap_or_default();
        // The first are those that a page shows.
        let limit = unions.iter().map(|buckets| limit(buckets) / 2).min().unwrap_or_default();
        let first = &counters[..counters.len().min(limit)];
        let visitors = async {
            match first.is_empty() {
                true => Ok(Vec::new()),
                false => self.reader.uniques(first, &unions).await,
            }
        };
        let (found, coverage) = try_join(visitors, self.coverage(counters)).await?;
        let visitors = |place: usize| Some(found.get(place)?.as_ref()?.visitors);
        let pair = |(place, coverage): (_, Before<()>)| {
            coverage.and_then(|()| visitors(2 * place).zip(visitors(2 * place + 1)))
        };
        Ok(coverage.into_iter().enumerate().map(pair).collect())
    }

    /// Returns whether the people of a counter were counted in this period and in the compared period whenever it has hits.
    /// Only labels can begin to count people later.
    async fn people_coverage(&self, counter: &CounterName) -> Result<Coverage, Error> {
        if counter.label().is_none() {
            return Ok(Coverage::Complete);
        }
        let (stats, range) = (self.reader.stats, self.timeline.buckets.range());
        let start = self.timeline.compared.as_ref().map_or(range.start, |compared| compared.range().start);
        let is_counted = |part: &Retention| stats.reach().counts.retention(part.precision).is_some();
        let kept = self.visitor_precisions(std::slice::from_ref(counter));
        let Some(kept) = kept.and_then(|kept| kept.iter().find(is_counted)) else {
            return Ok(Coverage::Unknown);
        };
        let start = kept.precision.bucket(start).start.max(kept.oldest(self.now));
        let range = start..range.end.min(self.now.plus(1));
        match length(&range) / u64::from(kept.precision.as_seconds()) < Stats::MAX_COUNTED_SKETCHES {
            true => people_coverage(stats, counter, kept.precision, range).await,
            false => Ok(Coverage::Unknown),
        }
    }

    /// Returns the buckets of visitors of this period and of the compared period that can be compared.
    fn compared_unions(&self, counters: &[CounterName]) -> Option<Vec<Vec<Bucket>>> {
        let (range, now) = (self.timeline.buckets.range(), self.now);
        let compared = self.timeline.compared.as_ref().map(Buckets::range)?;
        let kept = self.visitor_precisions(counters)?;
        let both = |end: Timestamp| {
            let ranges = if range.end <= now {
                [range.clone(), compared.clone()]
            } else {
                let this = range.start..end.max(range.start);
                let other = compared.start..compared.start.plus(length(&this)).min(compared.end);
                [this, other]
            };
            let union = |range: &Range<Timestamp>| {
                let union = self.union(&kept, range).filter(|union| !union.is_wider)?;
                (!union.buckets.is_empty()).then_some(union.buckets)
            };
            Some((ranges[0].end, vec![union(&ranges[0])?, union(&ranges[1])?]))
        };
        let fitting = kept.iter().filter_map(|part| both(part.precision.bucket(now).start));
        fitting.max_by_key(|(end, _)| *end).map(|(_, unions)| unions)
    }

    /// Returns the number of counters with visitors like these that can be read in a single call.
    pub(crate) fn visitor_limit(&self, counters: &[CounterName]) -> usize {
        let kept = self.visitor_precisions(counters);
        let union = kept.and_then(|kept| self.union(&kept, &self.timeline.buckets.range()));
        union.map_or(usize::MAX, |union| limit(&union.buckets))
    }

    /// Returns the coarsest count precision with buckets that exactly cover the period, or that of the chart.
    pub(crate) fn precision(&self) -> (Precision, Range<Timestamp>) {
        let (read, range) = (self.timeline.buckets.read.precision, self.timeline.buckets.range());
        (tile(&self.reader.stats.reach().counts, &range, self.now).unwrap_or(read), range)
    }

    /// Returns the distributions that are retained for the period.
    pub(crate) fn retained_distributions(&self) -> Option<Retained> {
        Retained::of(self.reader.stats.reach().distributions.as_ref()?, &self.timeline, self.now)
    }

    /// Reads the distributions of a counter for these measures, if distributions are retained. Those of the compared period are
    /// only returned if all of it was counted.
    async fn distributions(
        &self,
        counter: &CounterName,
        measures: &[Measure],
    ) -> Result<Option<PeriodDistributions>, Error> {
        let Some(retained) = self.retained_distributions() else { return Ok(None) };
        let read = async |range: Option<Range<Timestamp>>| match range {
            Some(range) => self.reader.distributions(counter, retained.precision, range, measures).await,
            None => Ok(Vec::new()),
        };
        let (all, mut compared, coverage) = try_join3(
            read(Some(retained.range.clone())),
            read(retained.compared.clone()),
            self.coverage(std::slice::from_ref(counter)),
        )
        .await?;
        if coverage[0] != Before::Known(()) {
            compared.clear();
        }
        Ok(Some(PeriodDistributions { retained, all, compared }))
    }

    /// Reads the response times of a counter, unless they have already been read, if distributions are retained.
    pub(crate) async fn times(
        &self,
        counter: &CounterName,
    ) -> Result<Option<Cow<'_, PeriodDistributions>>, Error> {
        if self.counter.as_ref() == Some(counter) {
            return Ok(self.page_distributions().await?.map(Cow::Borrowed));
        }
        Ok(self.distributions(counter, &[Measure::Time]).await?.map(Cow::Owned))
    }

    /// Reads all distributions of the counter of the page, unless they have already been read.
    pub(crate) async fn page_distributions(&self) -> Result<Option<&PeriodDistributions>, Error> {
        let Some(counter) = &self.counter else { return Ok(None) };
        let measured = self.measured.get_or_try_init(|| self.distributions(counter, &Measure::ALL)).await?;
        Ok(measured.as_ref())
    }
}

fn has_views(counters: &[CounterName]) -> bool {
    counters.iter().any(|counter| counter.viewed().is_some())
}

/// Returns the number of counters that can be read in a single call.
fn limit(buckets: &[Bucket]) -> usize {
    let buckets = buckets.len().max(1) as u64;
    usize::try_from(Stats::MAX_COUNTED_SKETCHES / buckets).unwrap_or(usize::MAX)
}

/// Returns the coarsest precision with retained buckets that exactly cover a range.
fn tile(retained: &Precisions, range: &Range<Timestamp>, now: Timestamp) -> Option<Precision> {
    let fits = |precision: Precision| {
        let last = precision.bucket(range.end.minus(1));
        precision.bucket(range.start).start == range.start && last.end() == range.end
    };
    let complete = retained.iter().filter(|part| part.oldest(now) <= range.start);
    complete.map(|part| part.precision).filter(|precision| fits(*precision)).last()
}
