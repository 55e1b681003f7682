//! Entity counts, on every database and cache.

mod contract;
mod cache;
mod races;
mod flow;
mod transactions;
mod behind;
mod reconcile;
mod outage;
mod hung;
mod model;
mod exported;
mod stand;

use counter_core::entity;
use counter_core::entity::EntityLedger;

entity! {
    /// Counts of a post.
    pub(crate) enum Post: "post" {
        /// Number of views.
        Views = "views",
        /// Number of members who like the post.
        Likes = "likes",
    }
}

/// Returns a ledger with no pending changes.
fn ledger([recorded, applied, dropped, rejected]: [u64; 4]) -> EntityLedger {
    let mut ledger = EntityLedger::default();
    (ledger.recorded, ledger.applied) = (recorded, applied);
    (ledger.dropped, ledger.rejected) = (dropped, rejected);
    ledger
}
