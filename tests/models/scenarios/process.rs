use counter_core::visits::Builder;
use counter_core::{Counters, Store};

/// Configures a process with small tables, because a scenario starts a hundred thousand processes.
pub(crate) fn configure(store: impl Store) -> Builder {
    Counters::builder(store).max_counters(8).label_places(1).label_pairs(1)
}

/// Starts a process without a spool.
pub(crate) fn process(store: impl Store) -> Counters {
    configure(store).build().expect("a good configuration")
}
