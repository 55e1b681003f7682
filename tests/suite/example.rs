//! The example program, including the forum.

mod import;
mod minimal;
mod program;
mod trouble;
mod watch;
mod forum;
mod aborts;
mod hyper;
mod store;
mod hangs;
mod dump;
mod distributions;
mod labels;
mod archive;
