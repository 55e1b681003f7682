use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

/// A counter name: 1 to 200 bytes of UTF-8 with no control characters.
///
/// ```
/// use counter_core::CounterName;
///
/// let name: CounterName = "/articles/{id}".parse()?;
/// assert_eq!(&*name, "/articles/{id}");
/// assert!(CounterName::new("").is_err());
/// assert!(CounterName::new("a\nb").is_err());
/// # Ok::<(), counter_core::visits::CounterNameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterName(Arc<str>);

/// An error returned if a string is not a valid counter name.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterNameError {
    /// The name is empty.
    Empty,
    /// The name is longer than [`CounterName::MAX_BYTES`]. Contains the length in bytes.
    TooLong(usize),
    /// The name contains a control character at this byte position.
    ControlCharacter(usize),
}

impl CounterName {
    /// The maximum length of a name, in bytes.
    pub const MAX_BYTES: usize = 200;
    /// The counter used for hits if the name is not valid, or if all slots are already in use.
    pub const OTHER: &str = "(other)";
    /// The counter used for the visitors of the last minutes: see [`Stats::now`](crate::Stats::now). It never has hits.
    pub const NOW: &str = "(now)";
    /// The prefix for [label](crate::visits::LabelValues) counters, such as `label:referrer:example.com`.
    pub const LABELS: &str = "label:";
    /// The prefix for [view](crate::visits::PageHit::is_view) counters, such as `view:/articles/{id}`.
    pub const VIEWS: &str = "view:";

    /// The [labels](crate::visits::LabelValues) whose values only count views: `address` and `source`. Other labels must
    /// not have these names, because their totals are compared with views.
    pub const VIEW_LABELS: [&str; 2] = ["address", "source"];

    /// Creates a name.
    ///
    /// # Errors
    /// Returns an error if the name is empty, longer than [`MAX_BYTES`](Self::MAX_BYTES), or contains a
    /// control character.
    pub fn new(name: &str) -> Result<Self, CounterNameError> {
        if name.is_empty() {
            return Err(CounterNameError::Empty);
        }
        if name.len() > Self::MAX_BYTES {
            return Err(CounterNameError::TooLong(name.len()));
        }
        match name.char_indices().find(|(_, c)| c.is_control()) {
            Some((at, _)) => Err(CounterNameError::ControlCharacter(at)),
            None => Ok(Self(name.into())),
        }
    }

    pub(crate) fn other() -> Self {
        Self(Self::OTHER.into())
    }

    /// Returns the name of the counter for the views among the hits of a counter. This is `None` if the name would be
    /// too long; such a counter has no views.
    ///
    /// ```
    /// use counter_core::CounterName;
    ///
    /// let page = CounterName::new("/articles/{id}")?;
    /// let views = page.views().expect("a short name");
    /// assert_eq!(&*views, "view:/articles/{id}");
    /// assert_eq!(views.viewed(), Some("/articles/{id}"));
    /// # Ok::<(), counter_core::visits::CounterNameError>(())
    /// ```
    #[must_use]
    pub fn views(&self) -> Option<Self> {
        self.has_views().then(|| Self([Self::VIEWS, self].concat().into()))
    }

    /// Returns `true` if there is a name for the views of this counter.
    pub(crate) fn has_views(&self) -> bool {
        Self::VIEWS.len() + self.len() <= Self::MAX_BYTES
    }

    /// Returns the name of the counter that was viewed if this is a [view](Self::views) counter.
    #[must_use]
    pub fn viewed(&self) -> Option<&str> {
        self.strip_prefix(Self::VIEWS)
    }

    /// Returns the label and the value if this is a label counter.
    ///
    /// ```
    /// use counter_core::CounterName;
    ///
    /// let name: CounterName = "label:referrer:example.com".parse()?;
    /// assert_eq!(name.label(), Some(("referrer", "example.com")));
    /// assert_eq!(CounterName::new("/articles/{id}")?.label(), None);
    /// # Ok::<(), counter_core::visits::CounterNameError>(())
    /// ```
    #[must_use]
    pub fn label(&self) -> Option<(&str, &str)> {
        self.strip_prefix(Self::LABELS)?.split_once(':')
    }

    /// Returns the label, the page and the value if this is the counter of a
    /// [pair](crate::visits::LabelValues::by_page).
    ///
    /// ```
    /// use counter_core::CounterName;
    ///
    /// let name: CounterName = "label:referrer@:/articles/{id} = example.com".parse()?;
    /// assert_eq!(name.pair(), Some(("referrer", "/articles/{id}", "example.com")));
    /// assert_eq!(CounterName::of_pair("referrer", "/articles/{id}", "example.com"), Some(name));
    /// # Ok::<(), counter_core::visits::CounterNameError>(())
    /// ```
    #[must_use]
    pub fn pair(&self) -> Option<(&str, &str, &str)> {
        let (label, pair) = self.label()?;
        let (page, value) = split_pair(pair)?;
        Some((label.strip_suffix(PAIR_SUFFIX)?, page, value))
    }

    /// Returns the start of the names of all pairs of a label.
    pub(crate) fn pairs(label: &str) -> String {
        format!("{}{label}{PAIR_SUFFIX}:", Self::LABELS)
    }

    /// Returns the start of the names of all pairs with a page, given the start for all pairs of a label.
    pub(crate) fn pairs_of_page(prefix: &str, page: &str) -> String {
        format!("{prefix}{page}{PAIR_SEPARATOR}")
    }

    /// Returns the name of a [pair](Self::pair). This is `None` if the name would be too long, if the value
    /// contains ` = ` or begins with `= `, or if the label contains a colon; such pairs don't have a counter.
    /// Any other name has this label, page and value as its [pair](Self::pair).
    ///
    /// ```
    /// use counter_core::CounterName;
    ///
    /// let name = CounterName::of_pair("plan", "/a =", "b").expect("a short name");
    /// assert_eq!(name.pair(), Some(("plan", "/a =", "b")));
    /// // This would be the same name.
    /// assert_eq!(CounterName::of_pair("plan", "/a", "= b"), None);
    /// ```
    #[must_use]
    pub fn of_pair(label: &str, page: &str, value: &str) -> Option<Self> {
        if label.contains(':') {
            return None;
        }
        Self::with_prefix(&Self::pairs(label), page, value)
    }

    /// Returns the name of a pair, given the start for all pairs of a label.
    pub(crate) fn with_prefix(prefix: &str, page: &str, value: &str) -> Option<Self> {
        let name = || Self::new(&(Self::pairs_of_page(prefix, page) + value)).ok();
        Self::is_pair(prefix, page, value).then(name)?
    }

    /// Returns `true` if a pair of valid names can have a counter.
    pub(crate) fn is_pair(prefix: &str, page: &str, value: &str) -> bool {
        let bytes = prefix.len() + page.len() + PAIR_SEPARATOR.len() + value.len();
        // The name is split at the last separator, which can overlap with the one before.
        let is_ambiguous = value.contains(PAIR_SEPARATOR) || value.starts_with(&PAIR_SEPARATOR[1..]);
        bytes <= Self::MAX_BYTES && !is_ambiguous
    }
}

/// Separates the page from the value in the name of a pair.
const PAIR_SEPARATOR: &str = " = ";

/// Appended to the label in the names of pairs. A label name can't contain this.
pub(crate) const PAIR_SUFFIX: char = '@';

fn split_pair(pair: &str) -> Option<(&str, &str)> {
    pair.rsplit_once(PAIR_SEPARATOR)
}

/// Returns the part of the name used to choose the shard. All values of a label belong to the same shard, so
/// that a single sequence position covers a hit regardless of the value. Pairs and views belong to the shard of
/// the page.
pub(crate) fn sharded_part(name: &str) -> &str {
    if let Some(viewed) = name.strip_prefix(CounterName::VIEWS) {
        return sharded_part(viewed);
    }
    let label = name.strip_prefix(CounterName::LABELS).and_then(|rest| rest.split_once(':'));
    match label {
        None => name,
        Some((label, value)) => match split_pair(value).filter(|_| label.ends_with(PAIR_SUFFIX)) {
            Some((page, _)) => sharded_part(page),
            None => &name[..CounterName::LABELS.len() + label.len()],
        },
    }
}

impl Deref for CounterName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for CounterName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for CounterName {
    fn as_ref(&self) -> &str {
        self
    }
}

impl TryFrom<&str> for CounterName {
    type Error = CounterNameError;

    fn try_from(name: &str) -> Result<Self, CounterNameError> {
        Self::new(name)
    }
}

impl TryFrom<String> for CounterName {
    type Error = CounterNameError;

    fn try_from(name: String) -> Result<Self, CounterNameError> {
        Self::new(&name)
    }
}

impl FromStr for CounterName {
    type Err = CounterNameError;

    fn from_str(name: &str) -> Result<Self, CounterNameError> {
        Self::new(name)
    }
}

impl fmt::Display for CounterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Display for CounterNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the counter name is empty"),
            Self::TooLong(bytes) => {
                write!(f, "the counter name has {bytes} bytes, but the maximum is {}", CounterName::MAX_BYTES)
            }
            Self::ControlCharacter(at) => {
                write!(f, "the counter name contains a control character at byte {at}")
            }
        }
    }
}

impl std::error::Error for CounterNameError {}

crate::log::debug::debug_in_full!(CounterNameError);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts of separators, and of parts of separators.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof!["[a= :@]{1,8}", "[/a]{0,2}( =|= | = |=| ){0,3}[ab]{0,2}", "\\PC{1,20}"]
    }

    proptest! {
        #[test]
        fn every_pair_round_trips(label in text(), page in text(), value in text()) {
            if let Some(name) = CounterName::of_pair(&label, &page, &value) {
                prop_assert_eq!(name.pair(), Some((&*label, &*page, &*value)));
                prop_assert_eq!(sharded_part(&name), sharded_part(&page));
                prop_assert!(name.starts_with(&CounterName::pairs_of_page(&CounterName::pairs(&label), &page)));
            }
        }

        #[test]
        fn a_pair_has_no_other_name(name in text()) {
            let name = CounterName::new(&format!("label:plan@:{name}"));
            if let Some((name, (label, page, value))) = name.as_ref().ok().and_then(|name| Some((name, name.pair()?))) {
                prop_assert_eq!(CounterName::of_pair(label, page, value), Some(name.clone()));
            }
        }
    }

    #[test]
    fn only_ambiguous_pairs_have_no_name() {
        for (page, value) in [("/a", "= b"), ("/a", "b = c"), ("/a =", "= b")] {
            assert_eq!(CounterName::of_pair("plan", page, value), None, "{page} {value}");
        }
        for (page, value, name) in [
            ("/a", "=", "label:plan@:/a = ="),
            ("/a", "=b", "label:plan@:/a = =b"),
            ("/a =", "b", "label:plan@:/a = = b"),
            ("/a = b", "c=", "label:plan@:/a = b = c="),
        ] {
            assert_eq!(CounterName::of_pair("plan", page, value).as_deref(), Some(name));
        }
    }
}
