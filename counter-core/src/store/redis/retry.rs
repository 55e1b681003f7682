use std::time::Duration;

use tokio::time::sleep;

use super::connection::answer_of;
use crate::{Error, ErrorKind};

/// Between two attempts: so many follow the first one.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(80), Duration::from_millis(320)];

/// Tries again what may be done twice, or was not done.
pub(super) async fn again<T, F>(may: fn(&Error) -> bool, attempt: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for pause in PAUSES {
        match attempt().await {
            Err(error) if may(&error) => sleep(pause).await,
            answer => return answer,
        }
    }
    attempt().await
}

/// How a server begins to say that it cannot do it now.
const NOT_NOW: [&str; 9] =
    ["BUSY", "LOADING", "READONLY", "NOREPLICAS", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "MOVED", "ASK"];

/// Whether the server said that it cannot do it now: then it has done nothing of it.
pub(super) fn not_now(error: &Error) -> bool {
    let answer = answer_of(error).unwrap_or_default();
    // Redis 6.2 says where in a script it met that first.
    NOT_NOW.iter().any(|word| answer.starts_with(word) || answer.contains(&format!(": -{word} ")))
}

/// The same, or that nobody knows: for what may be done twice.
pub(super) fn not_now_or_unknown(error: &Error) -> bool {
    not_now(error) || *error.kind() == ErrorKind::Unavailable
}
