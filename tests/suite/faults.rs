//! Tests for failures between a process and the stored counts, both individually and in storms.

mod network;
mod outage;
mod unreadable;
mod fences;
mod clocks;
mod histories;
mod returns;
mod logs;
mod producers;
mod chaos;
mod sql;
mod shutdown;
mod spool;
#[cfg(target_os = "linux")]
mod power;
