use std::fmt;
use std::str::FromStr;

use crate::family::shard::Shard;

/// The prefix of all keys: at most 64 bytes, without braces or control characters, and with a separator at
/// the end. It can be empty.
///
/// The default is `access:`. An empty namespace results in the keys from the book *Redis in Action*.
///
/// Any character except letters and digits can be the separator. If the separator is missing, the prefix is
/// rejected instead of being completed, because `shop` and `shop:` are different keys, and both may already
/// hold counters.
///
/// ```
/// use counter_core::stores::Namespace;
///
/// let shop: Namespace = "shop:".parse()?;
/// let error = "shop".parse::<Namespace>().unwrap_err();
/// assert!(error.to_string().contains(r#"write "shop:""#));
/// assert!("{shop}:".parse::<Namespace>().is_err());
/// # Ok::<(), counter_core::stores::NamespaceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

/// An error returned when parsing a [`Namespace`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The prefix is longer than 64 bytes, or contains a brace or a control character.
    Malformed(String),
    /// The prefix ends with a letter or digit, so that it would run into the key name. For existing keys, use
    /// [`Namespace::without_separator`].
    NoSeparator(String),
}

impl Namespace {
    /// Creates a namespace for existing keys with a prefix that does not end with a separator.
    ///
    /// ```
    /// use counter_core::stores::Namespace;
    ///
    /// let old = Namespace::without_separator("shop")?; // keys like `shopknown:`
    /// assert_eq!(old.to_string(), "shop");
    /// # Ok::<(), counter_core::stores::NamespaceError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the prefix is longer than 64 bytes, or contains a brace or a control character.
    pub fn without_separator(prefix: &str) -> Result<Self, NamespaceError> {
        // Braces would be taken as a hash tag, but the shard must choose the cluster slot.
        let invalid = prefix.chars().any(|c| c.is_control() || c == '{' || c == '}');
        if invalid || prefix.len() > 64 {
            Err(NamespaceError::Malformed(prefix.to_owned()))
        } else {
            Ok(Self(prefix.to_owned()))
        }
    }
}

impl FromStr for Namespace {
    type Err = NamespaceError;

    fn from_str(prefix: &str) -> Result<Self, NamespaceError> {
        let namespace = Self::without_separator(prefix)?;
        match prefix.chars().next_back() {
            Some(last) if last.is_alphanumeric() => Err(NamespaceError::NoSeparator(prefix.to_owned())),
            _ => Ok(namespace),
        }
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("access:".to_owned())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(prefix) => write!(
                f,
                "invalid namespace {prefix:?}: use at most 64 bytes and no braces or control characters"
            ),
            Self::NoSeparator(prefix) => {
                let complete = format!("{prefix}:");
                write!(f, "the namespace {prefix:?} must end with a separator: write {complete:?}")
            }
        }
    }
}

impl std::error::Error for NamespaceError {}

crate::log::debug::debug_in_full!(NamespaceError);

/// The prefix for the keys of a shard. In a cluster, all of these keys are in the same slot.
#[derive(Debug)]
pub(crate) struct Prefix {
    text: String,
    /// A key used only within a script, or to route a command to the server of this shard.
    pub(crate) scratch: String,
}

impl Prefix {
    /// Returns the prefix for a store that is not sharded.
    pub(crate) fn whole(Namespace(namespace): &Namespace) -> Self {
        Self::new(namespace.clone())
    }

    /// Returns the prefix for a shard in a sharded store.
    pub(crate) fn of(Namespace(namespace): &Namespace, shard: Shard) -> Self {
        Self::new(format!("{{{namespace}{shard}}}"))
    }

    fn new(text: String) -> Self {
        Self { scratch: format!("{text}scratch"), text }
    }

    /// Returns `true` if the prefix contains a hash tag with the shard.
    pub(crate) fn is_tagged(&self) -> bool {
        self.text.starts_with('{')
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_must_end_with_a_separator() {
        for good in ["", "shop:", "shop/", "a-b_", "é."] {
            assert_eq!(good.parse::<Namespace>().map(|namespace| namespace.to_string()), Ok(good.to_owned()));
        }
        for bad in ["shop", "shop:1", "é"] {
            let error = bad.parse::<Namespace>().expect_err("no separator").to_string();
            assert!(error.contains(&format!("write \"{bad}:\"")), "{error}");
            let existing = Namespace::without_separator(bad).expect("it may be there already");
            assert_eq!(existing.to_string(), bad);
        }
        assert!("{shop}:".parse::<Namespace>().is_err() && Namespace::without_separator("{shop}").is_err());
    }
}
