//! Alerts: the contract of their document on every store, and watches over it.

mod contract;
mod watch;
