//! The store of a dump, and how long it is waited for.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use counter_core::visits::Distribution;
use counter_core::{AnyStore, Counters, ErrorKind};

use crate::{clock, store};

/// The flags that `dump` and `restore` share.
#[derive(Debug, Args)]
pub(crate) struct Copied {
    #[command(flatten)]
    store: store::Settings,
    /// Offset of the site's clock from UTC, the same as that of the site: its days are other buckets.
    #[arg(long, env, default_value = "+00:00", value_parser = clock::utc_offset, allow_hyphen_values = true)]
    utc_offset: i32,
    /// Copy distributions, too, which a site keeps with the same flag.
    #[arg(long, env)]
    distributions: bool,
}

/// The time for which a store that is away is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

impl Copied {
    /// The store, for its unique counters, and the visits over it.
    pub(crate) async fn open(&self) -> Result<(AnyStore, Counters), Box<dyn Error>> {
        let store = self.store.open().await?.store;
        let mut counters = Counters::builder(store.clone()).utc_offset(self.utc_offset);
        if self.distributions {
            counters = counters.distributions(Distribution::precisions());
        }
        Ok((store, counters.build()?))
    }
}

/// How long a store has been away.
#[derive(Debug, Default)]
pub(crate) struct Patience(Option<Instant>);

impl Patience {
    /// Notes that the store answers.
    pub(crate) const fn renew(&mut self) {
        self.0 = None;
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// When the store has been away for a minute, or when it is not away but refuses.
    pub(crate) async fn bear(&mut self, error: counter_core::Error) -> Result<(), counter_core::Error> {
        let since = *self.0.get_or_insert_with(Instant::now);
        if *error.kind() != ErrorKind::Unavailable || since.elapsed() >= PATIENCE {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}

/// Returns whether a file of this name is compressed by gzip.
pub(crate) fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "gz")
}
