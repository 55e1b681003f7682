//! The example program, including the forum.

mod import;
mod findings;
mod history;
mod use_cases;
mod program;
mod reads;
mod trouble;
mod watch;
mod forum;
mod aborts;
mod store;
mod hangs;
mod dump;
mod labels;
mod archive;
mod demo;
mod flags;
mod health;
mod messages;
mod manual;
