//! What counting costs: the harness of the programs under `src/bin`.

pub mod callgrind;
pub mod work;
