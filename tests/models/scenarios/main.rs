//! Protocols with every order of a few events. The processes run the code of the project on model servers.
//!
//! `COUNTER_MODEL_DEPTH=1` explores one more fault or event per run, which takes much longer.

#[path = "../../suite/intercepted_store.rs"]
mod intercepted_store;
mod process;
mod server;
mod writers;
mod servers;
mod sources;
mod alerts;
mod archive;
mod repairs;
mod spool;
