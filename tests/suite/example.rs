//! The example as a program, and its forum.

mod program;
mod trouble;
mod forum;
mod aborts;
