//! Documents: the contract on every store.

mod contract;
