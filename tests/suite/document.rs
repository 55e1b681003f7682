//! Documents: the contract, which applies to any store.

mod contract;
