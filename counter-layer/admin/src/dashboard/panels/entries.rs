//! The pages or label values that a table lists.

use std::cmp::Reverse;

use counter_core::visits::{Coverage, LabelRanking};
use counter_core::{CounterName, Error, Precision};
use counter_layer::internal::{BOT_LABEL, HITS, SOURCE_LABEL};
use futures_util::future::try_join;

use super::describe::{NONE, Values};
use super::labels::{is_new, limits, remove_bots, rest};
use super::panel;
use super::people::{LABELS, counter};
use crate::dashboard::format::counters::{BROKEN_LINKS, MISSING_PAGES};
use crate::dashboard::period_reader::{Before, PeriodPeople, PeriodReader};
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::table::{Listed, Sort};
use crate::dashboard::view::view::View;
use crate::kind::Kind;
use crate::text::digits;

/// The maximum number of entries to read.
const MAX_ENTRIES: usize = 10_000;

/// The number of values with the most hits that show whether a label is new, and whether it counts people.
const MAX_FIRST: usize = 8;

/// What a file calls values that are not listed. `(other)` is a counter.
const UNLISTED: &str = "(not listed)";

/// The maximum number of names that the form suggests.
const MAX_SUGGESTIONS: usize = 100;

/// The entries of a table, sorted as requested.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) all: Vec<Entry>,
    pub(crate) order: Sort,
    /// What the totals count.
    pub(crate) unit: &'static str,
    pub(crate) columns: Columns,
    /// True if no value was counted before, so that the label is new.
    pub(crate) is_new: bool,
    /// True if neither more nor fewer hits are an improvement.
    pub(crate) is_neutral: bool,
    /// Counters that split all requests into parts, with their hits.
    pub(crate) facets: Vec<(CounterName, Option<u64>)>,
    /// The names to suggest for the chart, most hits first.
    pub(crate) suggestions: Vec<String>,
    pub(crate) notes: Vec<String>,
    /// Hits that should be added to a file because they are not listed. This is empty if the list is searched.
    pub(crate) unlisted: Vec<(&'static str, Option<u64>)>,
    /// The precision of this period, if the entries have no counts in it. They are not known then.
    pub(crate) unread: Option<Precision>,
}

/// Determines the columns of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Columns {
    /// Pages, with people, a trend, and the total of all time.
    #[default]
    Pages,
    /// Label values with people, who are compared. A label may begin to count people later than hits.
    People(Coverage),
    /// Label values without people, or pages of a value, which are a share of this total.
    Share(u64),
}

/// A page or a label value.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// What a file calls it.
    pub(crate) value: String,
    /// The counter of its page, if it has one.
    pub(crate) link: Option<CounterName>,
    pub(crate) hits: CounterName,
    /// The counter of the total: views of a page if the site counts them, and otherwise hits.
    pub(crate) counted: CounterName,
    /// `None` if it was not readable.
    pub(crate) total: Option<u64>,
    /// Unknown values are sorted to the end.
    sort_key: Option<u64>,
}

impl Entries {
    /// Reads the entries that match the search.
    pub(crate) async fn read(period: &PeriodReader<'_>, view: &View) -> Result<Self, Error> {
        let listed = view.listed();
        let mut entries = match listed.label() {
            None => Self::pages(period).await?,
            Some(label) => Self::of_label(period, listed, label).await?,
        };
        let query = view.table.search.to_lowercase();
        let has_query = |text: &str| text.to_lowercase().contains(&query);
        if !query.is_empty() {
            entries.all.retain(|entry| has_query(&entry.name) || has_query(&entry.value));
            entries.unlisted.clear();
        }
        let default = if matches!(entries.columns, Columns::People(_)) { Sort::People } else { Sort::Total };
        entries.order = view.table.sort.unwrap_or(default);
        if matches!(entries.columns, Columns::Share(_)) && entries.order == Sort::People {
            entries.order = Sort::Total;
        }
        entries.sort(period, listed.column()).await?;
        Ok(entries)
    }

    async fn pages(period: &PeriodReader<'_>) -> Result<Self, Error> {
        let ((names, is_cut), has_views) =
            try_join(period.reader.counters(MAX_ENTRIES), period.counts_views()).await?;
        let is_facet = |name: &CounterName| **name == *HITS || Kind::Facet.has(name);
        let (facets, names): (Vec<_>, Vec<_>) = names.into_iter().partition(is_facet);
        let counted = |name: &CounterName| name.views().filter(|_| has_views).unwrap_or_else(|| name.clone());
        let counted: Vec<_> = names.iter().map(counted).collect();
        let (facet_totals, totals) = try_join(period.totals(&facets), period.totals(&counted)).await?;
        let facets: Vec<_> = facets.into_iter().zip(facet_totals).collect();
        let entry = |((hits, counted), total): ((CounterName, _), _)| {
            let (name, value) = (hits.to_string(), hits.to_string());
            Entry {
                name,
                value,
                description: None,
                link: Some(hits.clone()),
                hits,
                counted,
                total,
                sort_key: total,
            }
        };
        let mut all: Vec<_> = names.into_iter().zip(counted).zip(totals).map(entry).collect();
        all.sort_by_key(|entry| Reverse(entry.total));
        let suggestions = facets.iter().map(|(name, _)| name).filter(|name| ***name == *HITS);
        let suggestions = suggestions.chain(all.iter().map(|entry| &entry.hits));
        let suggestions = suggestions.take(MAX_SUGGESTIONS).map(ToString::to_string).collect();
        let cut = format!("Only the first {} counters are listed.", digits::grouped(MAX_ENTRIES as u64));
        let notes = is_cut.then_some(cut).into_iter().collect();
        let unlisted = is_cut.then_some((UNLISTED, None)).into_iter().collect();
        let unit = if has_views { "Views" } else { "Hits" };
        Ok(Self { all, facets, suggestions, notes, unlisted, unit, ..Self::default() })
    }

    async fn of_label(period: &PeriodReader<'_>, listed: Listed<'_>, label: &str) -> Result<Self, Error> {
        let (stats, (precision, range)) = (period.reader.stats, period.precision());
        let unit = Metric::of_label(label).title();
        let keeps_views = stats.reach().counts.of_views().retention(precision).is_some();
        if CounterName::VIEW_LABELS.contains(&label) && !keeps_views {
            return Ok(Self { unit, unread: Some(precision), columns: Columns::Share(0), ..Self::default() });
        }
        let read = async |label: &str| {
            let range = range.clone();
            let ranking = match listed {
                Listed::ValuesOfPage(_, page) => {
                    stats.label_of_page(label, page, precision, range, MAX_ENTRIES).await?
                }
                Listed::PagesOfValue(_, value) => {
                    stats.pages_of_value(label, value, precision, range, MAX_ENTRIES).await?
                }
                Listed::Values(_) | Listed::Pages => {
                    stats.label(label, precision, range, MAX_ENTRIES).await?
                }
            };
            period.reader.note_all(&ranking.unreadable);
            Ok::<_, Error>(ranking)
        };
        let links = async {
            Ok(match listed {
                Listed::Values(MISSING_PAGES) => read(BROKEN_LINKS).await?.values,
                _ => Vec::new(),
            })
        };
        let (mut ranking, links) = try_join(read(label), links).await?;
        let names = Values::of(label, &links);
        let is_of_site = matches!(listed, Listed::Values(_));
        if !matches!(listed, Listed::PagesOfValue(..)) {
            remove_bots(label, &mut ranking);
        }
        let limits = limits(&ranking);
        let LabelRanking { values, none, total, .. } = ranking;
        let sum = values.iter().fold(0, |sum: u64, (_, hits)| sum.saturating_add(*hits));
        // Requests that came from nowhere are direct.
        let direct = Some((NONE.to_owned(), none))
            .filter(|(_, hits)| is_of_site && label == SOURCE_LABEL && *hits > 0);
        let rest = rest(listed);
        let without = if direct.is_some() { 0 } else { none };
        let others = total.saturating_sub(sum).saturating_sub(none);
        let notes = panel::note(&[(without, rest[0]), (others, rest[1])], &limits);
        let unlisted = [(NONE, without), (UNLISTED, others)].into_iter().filter(|(_, hits)| *hits > 0);
        let entry = |(value, total)| Entry::of_label(listed, label, &names, value, total);
        let all: Vec<_> = values.into_iter().chain(direct).filter_map(entry).collect();
        let first: Vec<_> = all.iter().take(MAX_FIRST).map(|entry| entry.hits.clone()).collect();
        let people = async {
            match is_of_site && LABELS.contains(&label) && !first.is_empty() {
                true => period.people(&first).await.map(Some),
                false => Ok(None),
            }
        };
        let (before, people) = try_join(period.before(&first), people).await?;
        let has_people = |people: &PeriodPeople| people.all.iter().flatten().any(Option::is_some);
        let whole = match listed {
            Listed::Values(BOT_LABEL) => total.saturating_sub(none),
            // The rest of a page may be hits of people.
            Listed::ValuesOfPage(BOT_LABEL, _) => sum,
            _ => total,
        };
        Ok(Self {
            columns: people
                .filter(has_people)
                .map_or(Columns::Share(whole), |people| Columns::People(people.coverage)),
            notes: notes.into_iter().collect(),
            unlisted: unlisted.map(|(value, hits)| (value, Some(hits))).collect(),
            is_new: is_new(&before),
            is_neutral: names.is_neutral(),
            all,
            unit,
            ..Self::default()
        })
    }

    /// Sorts the entries. If this is not possible in the requested order, a note says so.
    async fn sort(&mut self, period: &PeriodReader<'_>, column: &str) -> Result<(), Error> {
        let hits: Vec<_> = self.all.iter().map(|entry| entry.hits.clone()).collect();
        let counted: Vec<_> = self.all.iter().map(|entry| entry.counted.clone()).collect();
        let limit = match (self.order, self.columns) {
            (Sort::People, _) => period.visitor_limit(&hits),
            (Sort::Change, Columns::People(_)) => period.visitor_limit(&hits) / 2,
            _ => usize::MAX,
        };
        if hits.len() > limit {
            self.order = Sort::Total;
            self.notes.push(format!(
                "Not sorted by people, which is possible for at most {} {column}s. Search to narrow the list.",
                digits::grouped(limit as u64)
            ));
        }
        let keys: Option<Vec<Option<u64>>> = match (self.order, self.columns) {
            (Sort::Name | Sort::Total, _) => None,
            (Sort::Lifetime, _) => Some(period.reader.lifetimes(&counted).await?),
            (Sort::Change, Columns::People(coverage)) => {
                let people = period.people_with(&hits, coverage).await?.compared;
                Some(people.into_iter().map(|pair| pair.known().map(ratio)).collect())
            }
            (Sort::Change, _) => {
                let before = period.before(&counted).await?;
                let key = |(entry, before): (&Entry, Before)| before.with(entry.total).known().map(ratio);
                Some(self.all.iter().zip(before).map(key).collect())
            }
            (Sort::People, _) => {
                let people = period.visitors(&hits).await?;
                people.map(|people| people.into_iter().map(|people| Some(people?.visitors)).collect())
            }
        };
        for (entry, key) in self.all.iter_mut().zip(keys.into_iter().flatten()) {
            entry.sort_key = key;
        }
        if self.order == Sort::Name {
            self.all.sort_by(|one, other| one.name.cmp(&other.name));
        } else {
            let key = |entry: &Entry| Reverse((entry.sort_key, entry.total));
            self.all.sort_by(|one, other| key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name)));
        }
        Ok(())
    }
}

impl Entry {
    fn of_label(
        listed: Listed<'_>,
        label: &str,
        names: &Values<'_>,
        value: String,
        total: u64,
    ) -> Option<Self> {
        let (hits, link) = match listed {
            Listed::ValuesOfPage(_, page) => {
                (CounterName::of_pair(label, page, &value)?, counter(label, &value))
            }
            Listed::PagesOfValue(_, of) => {
                (CounterName::of_pair(label, &value, of)?, CounterName::new(&value).ok())
            }
            Listed::Values(_) | Listed::Pages => (counter(label, &value)?, counter(label, &value)),
        };
        let (name, description) = match listed {
            Listed::PagesOfValue(..) => (value.clone(), None),
            _ => names.describe(&value),
        };
        let (link, total) = (link.filter(|_| value != NONE), Some(total));
        Some(Self { name, description, value, link, counted: hits.clone(), hits, total, sort_key: total })
    }
}

/// Returns how much a count has changed, in thousandths of the count before. New counters are sorted to the end.
fn ratio((now, before): (u64, u64)) -> u64 {
    let part = (u128::from(now) * 1000).checked_div(u128::from(before));
    u64::try_from(part.map_or(0, |part| part.saturating_add(1))).unwrap_or(u64::MAX)
}
