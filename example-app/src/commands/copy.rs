//! The store of a dump.

use std::error::Error;
use std::path::Path;

use clap::Args;
use counter_core::visits::Distribution;
use counter_core::{AnyStore, Counters};

use crate::flags::{grid, store};

/// The flags that `dump` and `restore` share.
#[derive(Debug, Args)]
pub(crate) struct Copied {
    #[command(flatten)]
    store: store::Settings,
    #[command(flatten)]
    grid: grid::Settings,
    /// Copy distributions, too, which a site keeps with the same flag.
    #[arg(long, env)]
    distributions: bool,
}

impl Copied {
    /// The store, for its unique counters, and the visits over it.
    pub(crate) async fn open(&self) -> Result<(AnyStore, Counters), Box<dyn Error>> {
        let store = self.store.open().await?.store;
        let mut counters = Counters::builder(store.clone());
        if self.distributions {
            counters = counters.distributions(Distribution::precisions());
        }
        Ok((store, self.grid.build(counters).await?))
    }
}

/// Returns whether a file of this name is compressed by gzip.
pub(crate) fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "gz")
}
