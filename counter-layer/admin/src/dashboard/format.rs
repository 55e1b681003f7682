//! Numbers, amounts and instants as text.

pub(crate) mod numbers;
pub(crate) mod units;
pub(crate) mod instants;
