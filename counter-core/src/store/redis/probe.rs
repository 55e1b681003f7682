use super::connection::answer_of;
use super::route::Route;
use super::{RedisStore, Shared};
use crate::{Error, Shard};

/// What a server says of itself.
///
/// ```no_run
/// # async fn show(store: counter_core::RedisStore) -> Result<(), counter_core::Error> {
/// let server = store.server().await?;
/// assert!(server.scripts, "batches go as transactions, which cost more");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisServer {
    /// Its version; `None` where `INFO` is not permitted.
    pub version: Option<String>,
    /// Whether it is a node of a cluster; `None` where `INFO` is not permitted.
    pub cluster: Option<bool>,
    /// Whether it runs scripts for this user.
    pub scripts: bool,
}

impl RedisStore {
    /// Asks the server, of a cluster the one with the first shard, what it is and can do.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn server(&self) -> Result<RedisServer, Error> {
        probe(&self.0).await
    }
}

/// Asks once at the start and says in the log what will not go well.
pub(super) async fn at_start(shared: &Shared) {
    let Ok(server) = probe(shared).await else { return };
    if !server.scripts {
        shared.refuse_scripts();
    }
    if server.cluster == Some(true) && matches!(shared.route, Route::One(_)) && !shared.is_tagged() {
        tracing::error!("this server is a node of a cluster: its address must begin with redis-cluster://");
    }
    if let Some(version) = &server.version {
        tracing::info!(version, scripts = server.scripts, "connected to the store");
    }
}

async fn probe(shared: &Shared) -> Result<RedisServer, Error> {
    let key = &shared.keys(Shard::default()).known;
    let script = vec!["return 1".into(), "1".into(), key.into()];
    let scripts = match shared.route.call::<i64>("EVAL", key, script).await {
        Ok(_) => true,
        Err(error) if are_refused(&error) => false,
        Err(error) => return Err(error),
    };
    let info: Option<String> = shared.route.call("INFO", key, vec!["server".into()]).await.ok();
    let line = |name: &str| {
        let mut lines = info.as_deref()?.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    let version = line("valkey_version").or_else(|| line("redis_version"));
    let cluster = line("redis_mode").map(|mode| mode == "cluster");
    Ok(RedisServer { version: version.map(str::to_owned), cluster, scripts })
}

/// Whether this is how a server refuses scripts, all of them.
pub(super) fn are_refused(error: &Error) -> bool {
    let answer = answer_of(error).unwrap_or_default().to_ascii_lowercase();
    let refused = ["noperm", "err unknown command"].iter().any(|word| answer.starts_with(word));
    refused && answer.contains("eval")
}
