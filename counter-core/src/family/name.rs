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
    /// The prefix for [label](crate::visits::LabelValues) counters, such as `label:referrer:example.com`.
    pub const LABELS: &str = "label:";

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

    /// Returns the name of a [pair](Self::pair). This is `None` if the name would be too long, or if the value
    /// contains ` = `; such pairs don't have a counter.
    #[must_use]
    pub fn of_pair(label: &str, page: &str, value: &str) -> Option<Self> {
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
        bytes <= Self::MAX_BYTES && !value.contains(PAIR_SEPARATOR)
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
/// that a single sequence position covers a hit regardless of the value. A pair belongs to the shard of the
/// page.
pub(crate) fn sharded_part(name: &str) -> &str {
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
