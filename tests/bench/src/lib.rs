//! What counting costs: the harness of the programs under `src/bin`.

pub mod callgrind;
#[cfg(feature = "peers")]
pub mod load;
#[cfg(feature = "peers")]
pub mod site;
#[cfg(feature = "peers")]
pub mod table;
pub mod work;
