use std::fmt;
use std::str::FromStr;

use crate::family::shard::Shard;

/// The prefix of every key: at most 64 bytes without braces or control characters, and with a separator at its end;
/// it may be empty.
///
/// The default is `access:`. With an empty namespace, the keys are those of the book *Redis in Action*.
///
/// A separator is whatever is neither a letter nor a digit. A text without one is refused and not completed: `shop`
/// and `shop:` are different keys, and so may be different counters that are there already.
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

/// The reason why a text is not a [`Namespace`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The text is longer than 64 bytes, or has a brace or a control character.
    Malformed(String),
    /// The text ends in a letter or a digit, which the names of keys would follow at once.
    NoSeparator(String),
}

impl Namespace {
    /// Returns the namespace of keys that were written under a prefix without a separator.
    ///
    /// ```
    /// use counter_core::stores::Namespace;
    ///
    /// let old = Namespace::without_separator("shop")?; // keys such as `shopknown:`
    /// assert_eq!(old.to_string(), "shop");
    /// # Ok::<(), counter_core::stores::NamespaceError>(())
    /// ```
    ///
    /// # Errors
    /// Fails when the text is longer than 64 bytes, or has a brace or a control character.
    pub fn without_separator(prefix: &str) -> Result<Self, NamespaceError> {
        // Braces choose the slot of a key in a cluster, which is not up to a namespace.
        let odd = prefix.chars().any(|c| c.is_control() || c == '{' || c == '}');
        if odd || prefix.len() > 64 {
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
                "a namespace has at most 64 bytes and no braces or control characters, unlike {prefix:?}"
            ),
            Self::NoSeparator(prefix) => write!(
                f,
                "the namespace {prefix:?} has no separator at its end: write {:?}, or \
                 `Namespace::without_separator` for keys that are there already",
                format!("{prefix}:")
            ),
        }
    }
}

impl std::error::Error for NamespaceError {}

crate::log::debug::debug_in_full!(NamespaceError);

/// The prefix of all keys of one shard, which are all in one slot of a cluster.
#[derive(Debug)]
pub(crate) struct Prefix {
    text: String,
    /// A key of the shard that only holds something within one script: it leads to the server of the shard.
    pub(crate) scratch: String,
}

impl Prefix {
    /// Returns the prefix of a store that is not split.
    pub(crate) fn whole(Namespace(namespace): &Namespace) -> Self {
        Self::new(namespace.clone())
    }

    /// Returns the prefix of one shard of several.
    pub(crate) fn of(Namespace(namespace): &Namespace, shard: Shard) -> Self {
        Self::new(format!("{{{namespace}{shard}}}"))
    }

    fn new(text: String) -> Self {
        Self { scratch: format!("{text}scratch"), text }
    }

    /// Returns whether the prefix contains a hash tag with its shard.
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
    fn a_namespace_without_a_separator_is_refused_with_what_to_write() {
        for good in ["", "shop:", "shop/", "a-b_", "é."] {
            assert_eq!(good.parse::<Namespace>().map(|namespace| namespace.to_string()), Ok(good.to_owned()));
        }
        for bad in ["shop", "shop:1", "é"] {
            let error = bad.parse::<Namespace>().expect_err("no separator").to_string();
            assert!(error.contains(&format!("write \"{bad}:\"")), "{error}");
            let there = Namespace::without_separator(bad).expect("it may be there already");
            assert_eq!(there.to_string(), bad);
        }
        assert!("{shop}:".parse::<Namespace>().is_err() && Namespace::without_separator("{shop}").is_err());
    }
}
