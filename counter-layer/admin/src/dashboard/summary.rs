//! The top of a page: numbers, alerts, sites and the status of counting.

pub(crate) mod status;
pub(crate) mod raised;
pub(crate) mod cards;
pub(crate) mod sites;
