//! Counts of entities.
