//! What counting costs: the harness of the programs under `src/bin`.

pub mod callgrind;
#[cfg(feature = "store")]
pub mod past;
#[cfg(feature = "store")]
pub mod server;
#[cfg(feature = "store")]
pub mod table;
pub mod work;
