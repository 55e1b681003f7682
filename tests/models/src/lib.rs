//! A search over every sequence of choices of a scenario, in the way loom searches over threads.
//!
//! A scenario runs the code of the project, and calls [`Choices::among`] whenever something can happen in
//! several ways: which process runs next, or whether a message is lost. [`explore`] runs the scenario again
//! and again, until it has made every sequence of choices. A run repeats a prefix of the previous run and
//! then makes a different choice, so a scenario must not depend on anything but its choices.

mod choices;
mod explore;
mod faults;
mod interleave;
mod poll;

pub use choices::Choices;
pub use explore::{deeper, explore};
pub use faults::Faults;
pub use interleave::{Task, interleave};
pub use poll::poll_once;
