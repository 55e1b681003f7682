//! Options and helpers for dumps.

use std::error::Error;
use std::path::Path;

use clap::Args;
use counter_core::visits::Distribution;
use counter_core::{AnyStore, Counters};

use crate::flags::{grid, store};

/// Options that are shared by `dump` and `restore`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    store: store::Settings,
    #[command(flatten)]
    grid: grid::Settings,
    /// Copy distributions, too.
    #[arg(long, env = "COUNTER_DISTRIBUTIONS")]
    distributions: bool,
}

impl StoreArgs {
    /// Opens the store, which is needed for unique counters, and builds the counters.
    pub(crate) async fn open(&self) -> Result<(AnyStore, Counters), Box<dyn Error>> {
        let store = self.store.open().await?.store;
        let mut counters = Counters::builder(store.clone());
        if self.distributions {
            counters = counters.distributions(Distribution::precisions());
        }
        Ok((store, self.grid.build(counters).await?))
    }
}

/// Returns whether this is the name of a gzip file.
pub(crate) fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "gz")
}
