//! The workspace's integration tests, on real servers. Sorted by counter family first, then by the rest of
//! the library.

mod support;
mod stores;
mod intercepted_store;
mod log;
mod random;

mod visits;
mod unique;
mod window;
mod document;
mod note;
mod goal;
mod entity;
mod alert;
mod redis;
mod faults;
mod layer;
mod admin;
mod example;
mod tidy;
