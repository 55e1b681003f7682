//! The table parameters of a page.

use counter_core::CounterName;

use super::value::{WrongValue, positive};

/// The table parameters of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableView {
    pub(crate) search: String,
    pub(crate) sort: Sort,
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
            "sort" => {
                let named = SORTS.iter().find(|(_, name)| *name == value);
                self.sort = named.map_or_else(Sort::default, |(sort, _)| *sort);
            }
            "page" => self.leaf = positive::<usize>("page", value)? - 1,
            _ => {}
        }
        Ok(())
    }

    /// Appends the non-default parameters.
    pub(super) fn write(&self, fields: &mut Vec<(&'static str, String)>) {
        fields.extend((!self.search.is_empty()).then(|| ("q", self.search.clone())));
        fields.extend((self.sort != Sort::default()).then(|| ("sort", self.sort.name().to_owned())));
        fields.extend((self.leaf > 0).then(|| ("page", (self.leaf + 1).to_string())));
    }
}

impl Sort {
    pub(crate) fn name(self) -> &'static str {
        SORTS.iter().find(|(sort, _)| *sort == self).map_or("", |(_, name)| name)
    }
}
