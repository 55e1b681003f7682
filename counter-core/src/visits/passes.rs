//! The passes of a loop in the background, whose failures are logged when they begin and when they end.

use crate::Error;
use crate::log::unwind::{caught, tell};

/// The outcome of the passes of one loop so far.
#[derive(Debug)]
pub(crate) struct Passes {
    what: &'static str,
    failing: bool,
}

impl Passes {
    /// Begins with no failure, of what the log names so.
    pub(crate) const fn of(what: &'static str) -> Self {
        Self { what, failing: false }
    }

    /// Makes a pass, and returns what came of it unless it failed; a panic is a failure.
    pub(crate) async fn make<T>(&mut self, pass: impl Future<Output = Result<T, Error>> + Send) -> Option<T> {
        let Self { what, failing } = self;
        match caught(pass).await {
            Ok(made) => {
                if std::mem::replace(failing, false) {
                    tell(|| tracing::info!("{what} works again"));
                }
                Some(made)
            }
            Err(error) => {
                if !std::mem::replace(failing, true) {
                    tell(|| tracing::warn!(?error, "{what} failed; the next pass tries again"));
                }
                None
            }
        }
    }
}
