//! Harness for the benchmark programs under `src/bin`.

pub mod callgrind;
#[cfg(feature = "peers")]
pub mod load;
#[cfg(feature = "store")]
pub mod overview;
#[cfg(feature = "store")]
pub mod past;
#[cfg(feature = "store")]
pub mod processor;
#[cfg(feature = "store")]
pub mod server;
#[cfg(feature = "peers")]
pub mod site;
#[cfg(feature = "anomalies")]
#[path = "../../src/anomalies/score.rs"]
pub mod score;
#[cfg(feature = "anomalies")]
#[path = "../../src/anomalies/simulated.rs"]
pub mod simulated;
#[cfg(feature = "anomalies")]
#[path = "../../src/anomalies/realistic.rs"]
pub mod realistic;
#[cfg(feature = "anomalies")]
#[path = "../../src/anomalies/incidents.rs"]
pub mod incidents;
#[cfg(any(feature = "anomalies", feature = "peers", feature = "store"))]
pub mod table;
pub mod work;
