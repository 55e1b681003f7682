//! The parameters of a list.

use counter_core::CounterName;
use counter_core::internal::is_label_name;
use counter_layer::internal::HITS;

use super::value::{WrongValue, positive};
use crate::dashboard::format::names;

/// The parameters of a list in a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableView {
    /// The label whose values are listed, or `None` for pages.
    pub(crate) label: Option<String>,
    pub(crate) search: String,
    /// The requested order, or `None` for people if they are listed first, and otherwise the total.
    pub(crate) sort: Option<Sort>,
    /// The page of the table, starting at 0.
    pub(crate) leaf: usize,
}

/// What a table lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed<'a> {
    Pages,
    Values(&'a str),
    ValuesOfPage(&'a str, &'a CounterName),
    PagesOfValue(&'a str, &'a str),
}

/// The sort order of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    Name,
    #[default]
    Total,
    People,
    Change,
    Lifetime,
}

const SORTS: [(Sort, &str); 5] = [
    (Sort::Name, "name"),
    (Sort::Total, "total"),
    (Sort::People, "people"),
    (Sort::Change, "change"),
    (Sort::Lifetime, "lifetime"),
];

impl TableView {
    /// Parses a query parameter. Unknown parameters and names are ignored.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Result<(), WrongValue> {
        match name {
            "q" => self.search = value.chars().take(CounterName::MAX_BYTES).collect(),
            "label" => self.label = Some(label(value)?),
            "sort" => self.sort = SORTS.iter().find(|(_, name)| *name == value).map(|(sort, _)| *sort),
            "page" => self.leaf = positive::<usize>("page", value)? - 1,
            _ => {}
        }
        Ok(())
    }

    /// Appends the non-default parameters.
    pub(super) fn write(&self, fields: &mut Vec<(&'static str, String)>) {
        fields.extend(self.label.clone().map(|label| ("label", label)));
        fields.extend((!self.search.is_empty()).then(|| ("q", self.search.clone())));
        fields.extend(self.sort.map(|sort| ("sort", sort.name().to_owned())));
        fields.extend((self.leaf > 0).then(|| ("page", (self.leaf + 1).to_string())));
    }
}

impl<'a> Listed<'a> {
    pub(crate) fn of(label: Option<&'a str>, counter: &'a CounterName) -> Self {
        match (label, counter.label()) {
            (Some(label), _) if **counter == *HITS => Self::Values(label),
            (Some(label), _) => Self::ValuesOfPage(label, counter),
            (None, Some((label, value))) if counter.pair().is_none() => Self::PagesOfValue(label, value),
            (None, _) => Self::Pages,
        }
    }

    pub(crate) const fn label(self) -> Option<&'a str> {
        match self {
            Self::Pages => None,
            Self::Values(label) | Self::ValuesOfPage(label, _) | Self::PagesOfValue(label, _) => Some(label),
        }
    }

    /// Returns the title of the list.
    pub(crate) fn title(self) -> &'a str {
        match self {
            Self::Pages | Self::PagesOfValue(..) => "Pages",
            Self::Values(label) | Self::ValuesOfPage(label, _) => names::title(label),
        }
    }

    /// Returns `true` if the list belongs to a counter, and not to the site.
    pub(crate) const fn has_owner(self) -> bool {
        matches!(self, Self::ValuesOfPage(..) | Self::PagesOfValue(..))
    }

    /// Returns what an entry is called in a file.
    pub(crate) const fn column(self) -> &'static str {
        match self {
            Self::Pages | Self::PagesOfValue(..) => "page",
            Self::Values(_) | Self::ValuesOfPage(..) => "value",
        }
    }
}

impl Sort {
    fn name(self) -> &'static str {
        SORTS.iter().find(|(sort, _)| *sort == self).map_or("", |(_, name)| name)
    }
}

fn label(text: &str) -> Result<String, WrongValue> {
    let wrong = || WrongValue::new("label", text, "a label name, such as source");
    is_label_name(text).then(|| text.to_owned()).ok_or_else(wrong)
}
