/// The properties of a server, as it reports them.
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
    /// The server's version; `None` where `INFO` is not permitted.
    pub version: Option<String>,
    /// True if the server is a node of a cluster; `None` where `INFO` is not permitted.
    pub cluster: Option<bool>,
    /// True if the server runs scripts for this user.
    pub scripts: bool,
    /// True if the server executes transactions for this user; it is only asked if it runs no scripts.
    pub transactions: bool,
    /// The server's memory limit in bytes, 0 for none; `None` where `INFO` is not permitted.
    pub max_memory: Option<u64>,
    /// The server's `maxmemory-policy`, which applies when the limit is reached; `None` where `INFO` is not
    /// permitted.
    pub eviction: Option<String>,
}

impl RedisServer {
    /// Returns a sentence for each setting of the server that breaks a promise of this store: see [the
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

/// Returns what a policy takes away from the promises.
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
