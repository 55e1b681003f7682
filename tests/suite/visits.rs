//! Visit counts: the recorder, the store contract, the cleaner and the background loops.

mod contract;
mod distributions;
mod labels;
mod pairs;
mod views;
mod visitors;
mod now;
mod people;
mod clean;
mod expired;
mod archive;
mod offset;
mod book;
mod flow;
mod forget;
mod upkeep;
pub(crate) mod identity;
mod source;
mod dump;
mod fleet;
mod metrics;
