//! The pages or label values that a table lists.

use std::cmp::Reverse;

use counter_core::visits::LabelRanking;
use counter_core::{CounterName, Error};
use counter_layer::internal::{BOT_LABEL, HITS, SOURCE_LABEL};
use futures_util::future::try_join;

use super::describe::{NONE, Values};
use super::labels::{self, is_new, limits, remove_bots, unit};
use super::panel;
use super::people::{LABELS, counter};
use crate::dashboard::format::counters::{self, BROKEN_LINKS, MISSING_PAGES};
use crate::dashboard::period_reader::PeriodReader;
use crate::dashboard::view::table::Sort;
use crate::dashboard::view::view::View;
use crate::kind::Kind;
use crate::text::digits;

/// The maximum number of entries to read.
const MAX_ENTRIES: usize = 10_000;

/// The number of values with the most hits that show whether a label is new.
const MAX_FIRST: usize = 8;

/// The maximum number of names that the form suggests.
const MAX_SUGGESTIONS: usize = 100;

/// The entries of a table, sorted as requested.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) all: Vec<Entry>,
    pub(crate) order: Sort,
    /// What the totals count.
    pub(crate) unit: &'static str,
    /// True if the entries can have people.
    pub(crate) has_people: bool,
    /// True if the label itself is new, so that its values are not.
    pub(crate) is_new: bool,
    /// True if neither more nor fewer hits are an improvement.
    pub(crate) is_neutral: bool,
    /// The total of all entries, of which they are a share. `None` for pages of the site.
    pub(crate) whole: Option<u64>,
    /// Counters that split all requests into parts, with their hits.
    pub(crate) facets: Vec<(CounterName, Option<u64>)>,
    /// The names to suggest for the chart, most hits first.
    pub(crate) suggestions: Vec<String>,
    pub(crate) note: Option<String>,
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

/// What a table lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed<'a> {
    Pages,
    Values(&'a str),
    ValuesOfPage(&'a str, &'a CounterName),
    PagesOfValue(&'a str, &'a str),
}

impl<'a> Listed<'a> {
    pub(crate) fn of(view: &'a View) -> Self {
        let counter = &view.chart.counters[0];
        match (view.table.label.as_deref(), counter.label()) {
            (Some(label), _) if **counter == *HITS => Self::Values(label),
            (Some(label), _) => Self::ValuesOfPage(label, counter),
            (None, Some((label, value))) => Self::PagesOfValue(label, value),
            (None, None) => Self::Pages,
        }
    }

    /// Returns the title of the list.
    pub(crate) fn title(self) -> String {
        match self {
            Self::Pages | Self::PagesOfValue(..) => "Pages".to_owned(),
            Self::Values(label) | Self::ValuesOfPage(label, _) => labels::title(label).to_owned(),
        }
    }

    /// Returns the name of the page or value that the list belongs to.
    pub(crate) fn owner(self) -> Option<String> {
        match self {
            Self::Pages | Self::Values(_) => None,
            Self::ValuesOfPage(_, page) => Some(counters::title(page)),
            Self::PagesOfValue(label, value) => counter(label, value).map(|value| counters::title(&value)),
        }
    }

    /// Returns what an entry is called in a file.
    pub(crate) const fn column(self) -> &'static str {
        match self {
            Self::Pages | Self::PagesOfValue(..) => "page",
            Self::Values(_) | Self::ValuesOfPage(..) => "value",
        }
    }
}

impl Entries {
    /// Reads the entries that match the search.
    pub(crate) async fn read(period: &PeriodReader<'_>, view: &View) -> Result<Self, Error> {
        let mut entries = match Listed::of(view) {
            Listed::Pages => Self::pages(period).await?,
            of_label => Self::of_label(period, of_label).await?,
        };
        let query = view.table.search.to_lowercase();
        let has_query = |text: &str| text.to_lowercase().contains(&query);
        entries.all.retain(|entry| query.is_empty() || has_query(&entry.name) || has_query(&entry.value));
        let default = match Listed::of(view) {
            Listed::Values(_) if entries.has_people => Sort::People,
            _ => Sort::Total,
        };
        entries.order = view.table.sort.unwrap_or(default);
        entries.sort(period, Listed::of(view).column()).await?;
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
        let note = is_cut
            .then(|| format!("Only the first {} counters are listed.", digits::grouped(MAX_ENTRIES as u64)));
        let unit = if has_views { "Views" } else { "Hits" };
        Ok(Self { all, facets, suggestions, note, unit, has_people: true, ..Self::default() })
    }

    async fn of_label(period: &PeriodReader<'_>, listed: Listed<'_>) -> Result<Self, Error> {
        let (stats, (precision, range)) = (period.reader.stats, period.precision());
        let read = async |label: &str| match listed {
            Listed::ValuesOfPage(_, page) => {
                stats.label_of_page(label, page, precision, range.clone(), MAX_ENTRIES).await
            }
            Listed::PagesOfValue(_, value) => {
                stats.pages_of_value(label, value, precision, range.clone(), MAX_ENTRIES).await
            }
            _ => stats.label(label, precision, range.clone(), MAX_ENTRIES).await,
        };
        let label = match listed {
            Listed::Values(label) | Listed::ValuesOfPage(label, _) | Listed::PagesOfValue(label, _) => label,
            Listed::Pages => return Ok(Self::default()),
        };
        let links = async {
            Ok(match listed {
                Listed::Values(MISSING_PAGES) => read(BROKEN_LINKS).await?.values,
                _ => Vec::new(),
            })
        };
        let (mut ranking, links) = try_join(read(label), links).await?;
        period.reader.note_all(&ranking.unreadable);
        let names = Values::of(label, &links);
        let entry = |(value, total): (String, u64)| {
            let (hits, link) = match listed {
                Listed::ValuesOfPage(_, page) => {
                    (CounterName::of_pair(label, page, &value)?, counter(label, &value))
                }
                Listed::PagesOfValue(_, of) => {
                    (CounterName::of_pair(label, &value, of)?, CounterName::new(&value).ok())
                }
                _ => (counter(label, &value)?, counter(label, &value)),
            };
            let (name, description) = match listed {
                Listed::PagesOfValue(..) => (value.clone(), None),
                _ => names.describe(&value),
            };
            let (link, total) = (link.filter(|_| value != NONE), Some(total));
            let counted = hits.clone();
            Some(Entry { name, description, value, link, hits, counted, total, sort_key: total })
        };
        let is_of_site = matches!(listed, Listed::Values(_));
        if is_of_site {
            remove_bots(label, &mut ranking);
        }
        let limits = limits(&ranking);
        let LabelRanking { values, none, total, .. } = ranking;
        let listed_sum = values.iter().fold(none, |sum, (_, hits)| sum.saturating_add(*hits));
        // Requests that came from nowhere are direct.
        let direct = Some((NONE.to_owned(), none))
            .filter(|(_, hits)| is_of_site && label == SOURCE_LABEL && *hits > 0);
        let (without, rest) = match label {
            _ if direct.is_some() => ((0, ""), "with other values"),
            BOT_LABEL => ((none, "by people"), "by other bots"),
            _ => ((none, "without a value"), "with other values"),
        };
        let counts = [without, (total.saturating_sub(listed_sum), rest)];
        // Bots are a share of all bots.
        let whole = if label == BOT_LABEL { total.saturating_sub(none) } else { total };
        let all: Vec<_> = values.into_iter().chain(direct).filter_map(entry).collect();
        let first: Vec<_> = all.iter().take(MAX_FIRST).map(|entry: &Entry| entry.hits.clone()).collect();
        Ok(Self {
            note: panel::note(&counts, &limits),
            is_new: is_new(&period.before(&first).await?),
            all,
            unit: unit(label),
            has_people: is_of_site && LABELS.contains(&label),
            is_neutral: names.is_neutral(),
            whole: Some(whole),
            ..Self::default()
        })
    }

    /// Returns `true` if the change is that of people instead of the total.
    pub(crate) const fn compares_people(&self) -> bool {
        self.has_people && self.whole.is_some()
    }

    /// Sorts the entries. If this is not possible in the requested order, a note says so.
    async fn sort(&mut self, period: &PeriodReader<'_>, column: &str) -> Result<(), Error> {
        let hits: Vec<_> = self.all.iter().map(|entry| entry.hits.clone()).collect();
        let counted: Vec<_> = self.all.iter().map(|entry| entry.counted.clone()).collect();
        let limit = match self.order {
            Sort::People => period.visitor_limit(),
            Sort::Change if self.compares_people() => period.visitor_limit() / 2,
            _ => usize::MAX,
        };
        let keys: Option<Vec<Option<u64>>> = match self.order {
            Sort::Name | Sort::Total => None,
            _ if hits.len() > limit => {
                self.note = Some(format!(
                    "Not sorted by people, which is possible for at most {} {column}s. Search to narrow the list.",
                    digits::grouped(limit as u64)
                ));
                None
            }
            Sort::Lifetime => Some(period.reader.lifetimes(&counted).await?),
            Sort::Change if self.compares_people() => {
                let people = period.people(&hits).await?.compared;
                Some(people.into_iter().map(|pair| pair.known().map(ratio)).collect())
            }
            Sort::Change => {
                let before = period.compared_totals(&counted).await?;
                let pair = |(entry, before): (&Entry, Option<u64>)| Some(ratio(entry.total.zip(before)?));
                Some(self.all.iter().zip(before).map(pair).collect())
            }
            Sort::People => {
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

/// Returns how much a count has changed, in thousandths of the count before. New counters are sorted to the end.
fn ratio((now, before): (u64, u64)) -> u64 {
    let part = (u128::from(now) * 1000).checked_div(u128::from(before));
    u64::try_from(part.map_or(0, |part| part.saturating_add(1))).unwrap_or(u64::MAX)
}
