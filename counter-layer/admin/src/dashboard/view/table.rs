//! The parameters of a list.

use counter_core::CounterName;

use super::value::{WrongValue, positive};
use crate::api::parameter::is_label_name;

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

impl Sort {
    fn name(self) -> &'static str {
        SORTS.iter().find(|(sort, _)| *sort == self).map_or("", |(_, name)| name)
    }

    /// Returns the order if there are no people.
    pub(crate) fn without_people(self) -> Self {
        if self == Self::People { Self::Total } else { self }
    }
}

fn label(text: &str) -> Result<String, WrongValue> {
    let wrong = || WrongValue::new("label", text, "a label name, such as source");
    is_label_name(text).then(|| text.to_owned()).ok_or_else(wrong)
}
