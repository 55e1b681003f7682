//! What a store says about itself: its id, and the grid that it keeps.

use super::Stats;
use crate::Error;
use crate::visits::identity::{self, GridMismatch, StoreId};

impl Stats {
    /// Returns the id of the store, which is created by the first process that needs it; `None` if the store keeps none, as
    /// one of your own without [documents](crate::Store::documents).
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn store_id(&self) -> Result<Option<StoreId>, Error> {
        Ok(identity::read(&*self.store).await?.map(|(record, _)| record.id))
    }

    /// Compares the grid of these counters with the one that the store keeps: that of the first counters that flushed
    /// into it.
    ///
    /// A program calls this at its start to refuse a configuration that would hide older counts. While it runs, a
    /// difference is the hint [`GRID_DIFFERS`](crate::visits::Hint::GRID_DIFFERS).
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn grid_mismatch(&self) -> Result<Option<GridMismatch>, Error> {
        Ok(identity::read(&*self.store).await?.and_then(|(record, _)| record.mismatch(&self.tally.grid)))
    }

    /// Makes the grid of these counters the one that the store keeps.
    pub(in crate::visits) async fn change_grid(&self) -> Result<(), Error> {
        let grid = &self.tally.grid;
        identity::update(&*self.store, |record, _| record.grid = Some((**grid).clone())).await?;
        Ok(())
    }
}
