//! Evidence: what is claimed, how it was tested, and what the tests do not cover.
//!
//! Everything on this page can be repeated with a command in the repository. Randomized tests print a seed,
//! which repeats the random decisions, but not the order of concurrent tasks.
//!
//! # Not covered
//!
//! - More than one machine. Servers, instances and clients run on the same machine. Partitions, delays and lost
//!   messages are injected by a proxy, and a wrong clock is set per process.
//! - Disks that lose what they have acknowledged, or change it later. The simulated power cuts assume that
//!   synced data is on disk.
//! - Power cuts of Redis, PostgreSQL and MariaDB. These servers are killed, but we rely on their own tests for
//!   the disk.
//! - Failures of the hardware, such as memory errors, and compilers that violate the memory model.
//! - Unbounded models: they cover every order of events, but only for a few batches, processes and faults.
//! - Stores that you implement yourself, unless you run the same tests with them.
//! - Estimates. Numbers of visitors are estimated by sketches, which are compared register by register. Their
//!   accuracy is tested separately: see [`Sketch`](crate::sketch::Sketch).
