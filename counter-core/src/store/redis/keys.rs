use std::fmt;
use std::str::FromStr;

use crate::store::UniqueKey;
use crate::{Bucket, CounterName, Precision, Shard, WindowKey};

/// What every key begins with: at most 64 bytes without braces or control characters, possibly none.
///
/// The default is `access:`. The empty namespace gives the bare keys of the book.
///
/// ```
/// use counter_core::Namespace;
///
/// let shop: Namespace = "shop:".parse()?;
/// assert!("{shop}".parse::<Namespace>().is_err());
/// # Ok::<(), counter_core::NamespaceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

/// A text that is longer than 64 bytes or has a brace or a control character in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceError(String);

impl FromStr for Namespace {
    type Err = NamespaceError;

    fn from_str(prefix: &str) -> Result<Self, NamespaceError> {
        // Braces choose the slot of a key in a cluster, which is not for a prefix to do.
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

/// The names of the keys of one shard; the whole layout is here.
#[derive(Debug)]
pub(super) struct Keys {
    /// Sorted set, score 0: members `{precision}:{counter}`.
    pub(super) known: String,
    /// Sorted set: the same members, and when the oldest sample of each leaves retention.
    pub(super) due: String,
    /// Hash: counter to everything it ever counted.
    pub(super) total: String,
    /// Hash: the writers that have a fence, and what the cleaner last saw of it. Its field without a name is the
    /// mark of [`Witness`](crate::Witness), as is that of `total`.
    pub(super) writers: String,
    /// Hash: counters that were forgotten, and how often; and `{counter}\n{writer}`, of which of these times a writer
    /// was told.
    pub(super) forgotten: String,
    /// Where a dense sketch lies within one script, for PFMERGE to find it.
    pub(super) scratch: String,
    prefix: String,
}

impl Keys {
    /// Those of a store that is all of one piece.
    pub(super) fn whole(Namespace(namespace): &Namespace) -> Self {
        Self::new(namespace.clone())
    }

    /// Those of one shard, which all lie in one slot of a cluster.
    pub(super) fn of(Namespace(namespace): &Namespace, shard: Shard) -> Self {
        Self::new(format!("{{{namespace}{shard}}}"))
    }

    fn new(prefix: String) -> Self {
        Self {
            known: format!("{prefix}known:"),
            due: format!("{prefix}due"),
            total: format!("{prefix}total"),
            writers: format!("{prefix}writers"),
            forgotten: format!("{prefix}forgotten"),
            scratch: format!("{prefix}scratch"),
            prefix,
        }
    }

    /// String: the last sequence of a writer, and what there was to say of that batch.
    pub(super) fn fence(&self, writer: impl fmt::Display) -> String {
        format!("{}fence:{writer}", self.prefix)
    }

    /// What the names of counts begin with: `{precision}:{counter}` follows.
    pub(super) fn counts(&self) -> String {
        format!("{}count:", self.prefix)
    }

    /// Hash: bucket start to count.
    pub(super) fn count(&self, precision: Precision, counter: &CounterName) -> String {
        format!("{}count:{precision}:{counter}", self.prefix)
    }

    /// What the names of visitors begin with: `{precision}:{counter}:{start}` follows.
    pub(super) fn uniques(&self) -> String {
        format!("{}unique:", self.prefix)
    }

    /// HyperLogLog: the visitors of one bucket.
    pub(super) fn unique(&self, counter: &CounterName, bucket: Bucket) -> String {
        format!("{}unique:{}:{counter}:{}", self.prefix, bucket.precision, bucket.start)
    }

    /// Set or HyperLogLog: the items of a unique counter.
    pub(super) fn unique_counter(&self, counter: &UniqueKey) -> String {
        format!("{}{counter}", self.prefix)
    }

    /// String: the count of one window.
    pub(super) fn window(&self, key: &WindowKey) -> String {
        let WindowKey { counter, width, start, .. } = key;
        format!("{}window:{width}:{counter}:{start}", self.prefix)
    }

    /// Set: the tokens that were counted in one window.
    pub(super) fn tokens(&self, key: &WindowKey) -> String {
        format!("{}:tokens", self.window(key))
    }

    /// String: the 16 bytes of an epoch's salt.
    pub(super) fn salt(&self, epoch: Bucket) -> String {
        format!("{}salt:{}:{}", self.prefix, epoch.precision, epoch.start)
    }

    /// Hash: the fields of an entity, `{kind}:{id}`, to their count and version.
    #[cfg(feature = "entity")]
    pub(super) fn entity(&self, name: &str) -> String {
        format!("{}entity:{name}", self.prefix)
    }

    /// String: the token of who may keep a copy of an entity.
    #[cfg(feature = "entity")]
    pub(super) fn entity_lease(&self, name: &str) -> String {
        format!("{}entity-lease:{name}", self.prefix)
    }

    /// String: the token of who recounts a kind.
    #[cfg(feature = "entity")]
    pub(super) fn entity_lock(&self, kind: &str) -> String {
        format!("{}entity-lock:{kind}", self.prefix)
    }
}
