//! Formats numbers, units and instants.

pub(crate) mod units;
pub(crate) mod numbers;
pub(crate) mod instants;
pub(crate) mod names;
pub(crate) mod counters;
