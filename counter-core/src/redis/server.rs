/// Server properties, as reported by the server.
///
/// ```no_run
/// # async fn show(store: counter_core::RedisStore) -> Result<(), counter_core::Error> {
/// let server = store.server().await?;
/// assert!(server.scripts, "batches go as transactions, which cost more");
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
    /// True if the server is a cluster node. `None` if `INFO` is not permitted.
    pub cluster: Option<bool>,
    /// True if this user can run scripts.
    pub scripts: bool,
    /// True if this user can execute transactions. This is only checked if scripts are rejected, and true
    /// otherwise.
    pub transactions: bool,
    /// The server memory limit in bytes, or 0 if unlimited. `None` if `INFO` is not permitted.
    pub max_memory: Option<u64>,
    /// The server `maxmemory-policy`, applied when the memory limit is reached. `None` if `INFO` is not
    /// permitted.
    pub eviction: Option<String>,
}

impl RedisServer {
    /// Returns a warning for server settings that break the guarantees of this store. See [the
    /// guide](crate::guide::redis#memory-and-eviction).
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.scripts && !self.transactions {
            let words = "this user may run neither scripts (EVAL, EVALSHA) nor transactions (MULTI, EXEC), so \
                         nothing can be written: permit one of them";
            warnings.push(words.to_owned());
        }
        if let (Some(policy), Some(1..)) = (&self.eviction, self.max_memory)
            && let Some(cost) = cost(policy)
        {
            warnings
                .push(format!("maxmemory-policy is {policy}: when memory is short, {cost}; use noeviction"));
        }
        warnings
    }
}

/// Returns the guarantees that an eviction policy breaks.
fn cost(policy: &str) -> Option<&'static str> {
    if policy.starts_with("allkeys-") {
        Some(
            "counts and totals that were acknowledged are lost, and so is what guards against counting twice",
        )
    } else if policy.starts_with("volatile-") {
        Some("visitors, salts and the counts of limits are lost before their time")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_breaks_a_promise_is_told_where_memory_is_bounded() {
        for (policy, max_memory, told) in [
            ("noeviction", 1_000_000, None),
            ("allkeys-lru", 1_000_000, Some("counts")),
            ("allkeys-random", 1_000_000, Some("counts")),
            ("volatile-lfu", 1_000_000, Some("visitors")),
            ("volatile-ttl", 1_000_000, Some("visitors")),
            ("volatile-ttl", 0, None),
        ] {
            let server = RedisServer {
                version: None,
                cluster: None,
                scripts: true,
                transactions: true,
                max_memory: Some(max_memory),
                eviction: Some(policy.to_owned()),
            };
            let warnings = server.warnings();
            assert_eq!(warnings.len(), usize::from(told.is_some()), "{policy}: {warnings:?}");
            assert!(
                warnings.iter().all(|warning| warning.contains(told.unwrap_or_default())),
                "{warnings:?}"
            );
        }
    }
}
