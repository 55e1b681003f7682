//! Counters of windows.

mod contract;
