//! Access to the record that a store keeps about itself.

use std::sync::Arc;

use super::Stats;
use crate::document::DocumentStore;
use crate::error::Error;
use crate::time::{Grid, Precision, Precisions, Retention, Timestamp};
use crate::visits::store::identity::{GridMismatch, StoreId};
use crate::visits::store::{KnownQuery, Store, identity};

/// The documents of a store, for callers which only have a `dyn Store`.
#[derive(Debug)]
struct StoreDocuments(Arc<dyn Store>);

impl AsRef<dyn DocumentStore> for StoreDocuments {
    fn as_ref(&self) -> &(dyn DocumentStore + 'static) {
        self.0.info().documents.expect("support for documents does not change")
    }
}

impl Stats {
    /// Returns the [documents](crate::document) of the store, or `None` if the store doesn't support
    /// documents.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let stats = Counters::builder(MemoryStore::new()).build()?.stats();
    /// let documents = stats.documents().expect("all stores of this crate have documents");
    /// assert_eq!(documents.read("greeting").await?.version, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        self.store.info().documents?;
        Some(Arc::new(StoreDocuments(Arc::clone(&self.store))))
    }

    /// Returns the store id, which will be created if needed. Returns `None` if the store doesn't support
    /// [documents](crate::visits::store::Read::documents).
    ///
    /// # Errors
    /// Returns an error if the store doesn't respond.
    pub async fn store_id(&self) -> Result<Option<StoreId>, Error> {
        Ok(identity::read(&*self.store).await?.map(|(record, _)| record.id))
    }

    /// Compares the configured grid to the stored grid, i.e. to the grid of the first process that flushed
    /// into this store.
    ///
    /// Call this on startup in order to reject a configuration that would hide older counts. At runtime, a
    /// difference will be shown as the hint [`GRID_DIFFERS`](crate::visits::Hint::GRID_DIFFERS).
    ///
    /// # Errors
    /// Returns an error if the store doesn't respond.
    pub async fn grid_mismatch(&self) -> Result<Option<GridMismatch>, Error> {
        let Some((record, _)) = identity::read(&*self.store).await? else { return Ok(None) };
        let stored = match record.grid {
            Some(stored) => stored,
            None => match self.grid_without_offsets().await? {
                Some(stored) => stored,
                None => return Ok(None),
            },
        };
        Ok(GridMismatch::between(&stored, &self.tally.grid))
    }

    async fn has_counters(&self, precision: Precision) -> Result<bool, Error> {
        let query = KnownQuery { precisions: &[precision], from: "", limit: 1, since: Timestamp::MIN };
        Ok(!self.store.known(query).await?.counters.is_empty())
    }

    /// Returns the configured grid with all offsets removed, if the store only has counts in buckets with no
    /// offset. We need this for stores filled by older versions, which did not store the grid.
    async fn grid_without_offsets(&self) -> Result<Option<Grid>, Error> {
        let configured = &self.tally.grid;
        for retained in configured.counts.iter().filter(|retention| retention.precision.offset() != 0) {
            let plain = retained.precision.starting_at(Timestamp::MIN);
            if self.has_counters(plain).await? && !self.has_counters(retained.precision).await? {
                let without = |set: &Precisions| {
                    let plain = |retention: Retention| Retention {
                        precision: retention.precision.starting_at(Timestamp::MIN),
                        ..retention
                    };
                    Precisions::new(set.iter().map(plain)).expect("the number of widths is unchanged")
                };
                let distributions = configured.distributions.as_ref().map(without);
                return Ok(Some(Grid {
                    counts: without(&configured.counts),
                    visitors: without(&configured.visitors),
                    distributions,
                }));
            }
        }
        Ok(None)
    }

    /// Replaces the stored grid by the configured grid.
    pub(in crate::visits) async fn change_grid(&self) -> Result<(), Error> {
        let grid = &self.tally.grid;
        identity::update(&*self.store, |record, _| record.grid = Some((**grid).clone())).await?;
        Ok(())
    }
}
