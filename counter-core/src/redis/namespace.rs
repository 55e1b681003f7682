use std::fmt;
use std::str::FromStr;

use crate::shard::Shard;

/// The prefix of every key: at most 64 bytes without braces or control characters; it may be empty.
///
/// The default is `access:`. With an empty namespace, the keys are those of the book *Redis in Action*.
///
/// ```
/// use counter_core::stores::Namespace;
///
/// let shop: Namespace = "shop:".parse()?;
/// assert!("{shop}".parse::<Namespace>().is_err());
/// # Ok::<(), counter_core::stores::NamespaceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

/// A text that is longer than 64 bytes, or has a brace or a control character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceError(String);

impl FromStr for Namespace {
    type Err = NamespaceError;

    fn from_str(prefix: &str) -> Result<Self, NamespaceError> {
        // Braces choose the slot of a key in a cluster, which is not up to a namespace.
        let odd = prefix.chars().any(|c| c.is_control() || c == '{' || c == '}');
        if odd || prefix.len() > 64 {
            Err(NamespaceError(prefix.to_owned()))
        } else {
            Ok(Self(prefix.to_owned()))
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
        write!(f, "a namespace has at most 64 bytes and no braces or control characters, unlike {:?}", self.0)
    }
}

impl std::error::Error for NamespaceError {}

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
