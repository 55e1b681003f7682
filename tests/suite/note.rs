//! Notes: the contract on every store.

mod contract;
