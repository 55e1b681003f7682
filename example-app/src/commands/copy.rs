//! Options and helpers for dumps.

use std::error::Error;
use std::path::Path;

use clap::Args;
use counter_core::Counters;
use counter_core::visits::Distribution;

use crate::flags::store::{Mode, Opened};
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
    pub(crate) async fn open(&self, mode: Mode) -> Result<(Opened, Counters), Box<dyn Error>> {
        if mode == Mode::Read && self.grid.change_grid {
            return Err(
                "--change-grid: this command only reads the store; start the site with this option".into()
            );
        }
        self.grid.check()?;
        let opened = self.store.open(mode).await?;
        let mut counters = Counters::builder(opened.store.clone());
        if self.distributions {
            counters = counters.distributions(Distribution::precisions());
        }
        let counters = self.grid.build(counters, &opened.option).await?;
        Ok((opened, counters))
    }
}

/// Returns whether this is the name of a gzip file.
pub(crate) fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "gz")
}
