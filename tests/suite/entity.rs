//! Counts of entities, over every database and every cache.

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

entity! {
    /// Counts of a post.
    pub(crate) enum Post: "post" {
        /// Times that it was shown.
        Views = "views",
        /// Members who like it.
        Likes = "likes",
    }
}
