use std::fmt;

/// Server properties, as reported by the server.
///
/// ```no_run
/// # async fn show(store: counter_core::RedisStore) -> Result<(), counter_core::Error> {
/// let server = store.server().await?;
/// assert!(server.scripts, "batches use transactions, which are slower");
/// for warning in server.warnings() {
///     eprintln!("{warning}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisServer {
    /// The server version. `None` if `INFO` is not permitted.
    pub version: Option<String>,
    /// True if the server only supports the commands of Redis 6.1 or earlier. `None` if `INFO` is not permitted.
    pub is_outdated: Option<bool>,
    /// True if the server is a cluster node. `None` if `INFO` is not permitted.
    pub cluster: Option<bool>,
    /// True if this user can run scripts, and if scripts may use keys that they derive from their arguments.
    pub scripts: bool,
    /// True if this user can execute transactions. This is only checked if scripts are rejected, and true
    /// otherwise.
    pub transactions: bool,
    /// Commands that are refused, although batches, reads or the cleaner need them. Batches wait until they are
    /// permitted.
    pub refused: Vec<RefusedCommand>,
    /// True if the server uses the HyperLogLog encoding of Redis, which we read. `None` if `GET` is not
    /// permitted, or if another process used the same scratch key at the same time.
    pub hyperloglogs: Option<bool>,
    /// The server memory limit in bytes, or 0 if unlimited. `None` if `INFO` is not permitted.
    pub max_memory: Option<u64>,
    /// The server `maxmemory-policy`, applied when the memory limit is reached. `None` if `INFO` is not
    /// permitted.
    pub eviction: Option<String>,
}

/// A command that the server refuses for this user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedCommand {
    /// The command, e.g. `HINCRBY`, or `ZADD LT` for an option.
    pub command: &'static str,
    /// The error of the server.
    pub reason: String,
}

/// Commands that only reads and the cleaner always need, and batches sometimes.
const UPKEEP: [&str; 4] = ["EXISTS", "HDEL", "HSET", "ZREM"];

impl RefusedCommand {
    /// Returns `true` if reads or the cleaner need the command.
    pub(crate) fn is_for_upkeep(&self) -> bool {
        UPKEEP.contains(&self.command)
    }

    /// Returns what happens until the command is permitted.
    fn consequence(&self) -> &'static str {
        match self.command {
            "EXISTS" => "visitors can't be read",
            _ if self.is_for_upkeep() => "old data will not be removed, and logs will wait",
            _ => "batches will wait",
        }
    }
}

impl fmt::Display for RefusedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server refuses {}: {}", self.command, self.reason)
    }
}

impl RedisServer {
    /// Returns a warning for server settings that break the guarantees of this store. See [the
    /// guide](crate::guide::redis#memory-and-eviction).
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_outdated == Some(true) {
            let version = self.version.as_deref().unwrap_or("this version");
            warnings.push(format!(
                "Redis {version} is not supported, so batches will wait: use Redis 6.2 or later"
            ));
        } else {
            warnings.extend(
                self.refused
                    .iter()
                    .map(|refused| format!("{refused}; {} until it is permitted", refused.consequence())),
            );
        }
        if self.hyperloglogs == Some(false) {
            let message = "this server does not use the HyperLogLog encoding of Redis, so visitors can't be read: use Redis \
                         or Valkey";
            warnings.push(message.to_owned());
        }
        if !self.scripts && !self.transactions {
            let message = "this user is not permitted to run scripts (EVAL, EVALSHA) or transactions (MULTI, EXEC), so \
                         all writes will fail: permit either of them";
            warnings.push(message.to_owned());
        }
        if let (Some(policy), Some(1..)) = (&self.eviction, self.max_memory)
            && let Some(guarantee_loss) = guarantee_loss(policy)
        {
            warnings.push(format!(
                "maxmemory-policy is {policy}: if memory runs out, {guarantee_loss}; use noeviction"
            ));
        }
        warnings
    }
}

/// Returns the guarantees that an eviction policy breaks.
fn guarantee_loss(policy: &str) -> Option<&'static str> {
    if policy.starts_with("allkeys-") {
        Some("acknowledged counts and totals will be lost, as well as the protection against double counting")
    } else if policy.starts_with("volatile-") {
        Some("visitors, salts and rate limit counts will be lost early")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsafe_eviction_policy_with_a_memory_limit_causes_a_warning() {
        for (policy, max_memory, expected) in [
            ("noeviction", 1_000_000, None),
            ("allkeys-lru", 1_000_000, Some("counts")),
            ("allkeys-random", 1_000_000, Some("counts")),
            ("volatile-lfu", 1_000_000, Some("visitors")),
            ("volatile-ttl", 1_000_000, Some("visitors")),
            ("volatile-ttl", 0, None),
        ] {
            let server = RedisServer {
                version: None,
                is_outdated: None,
                cluster: None,
                scripts: true,
                transactions: true,
                refused: Vec::new(),
                hyperloglogs: None,
                max_memory: Some(max_memory),
                eviction: Some(policy.to_owned()),
            };
            let warnings = server.warnings();
            assert_eq!(warnings.len(), usize::from(expected.is_some()), "{policy}: {warnings:?}");
            assert!(
                warnings.iter().all(|warning| warning.contains(expected.unwrap_or_default())),
                "{warnings:?}"
            );
        }
    }
}
