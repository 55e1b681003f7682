//! Checks that everything readers saw agrees with everything clients did.
//!
//! A client notes each addition before it starts, and again when it is acknowledged or rejected. A reader
//! does the same for each read. Notes are in the order of real time. So a read must return at least the
//! additions acknowledged before it started, and at most those attempted before it ended. An addition with an
//! unknown outcome may count at any time, or never.
//!
//! These conditions follow from linearizability (Herlihy and Wing, 1990), and can be checked in linear time. They
//! are not sufficient for it, because they don't check which of several concurrent additions a read includes.

mod check;
mod log;
pub mod site;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, fs};

pub use check::{Promise, Summary, Violation};

/// Notes of clients and readers, in the order of time. Clones share the notes.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Vec<Event>>>);

/// A note. The number of an addition or a read is the position of its first note.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    /// A client is about to add to a counter.
    Add { counter: String, amount: u64 },
    /// The addition counts. The reply may contain the new count.
    Acknowledge { addition: usize, count: Option<u64> },
    /// The addition does not count and never will.
    Reject { addition: usize },
    /// A reader is about to read a counter.
    Read { counter: String },
    /// The read returned this count.
    See { read: usize, count: u64 },
    /// All faults have ended: from here on, reads must see everything that was acknowledged before.
    Settle,
}

/// An addition in progress. Dropping it means that the outcome is unknown.
#[derive(Debug)]
pub struct Addition {
    history: History,
    number: usize,
}

/// A read in progress. Dropping it means that the read failed.
#[derive(Debug)]
pub struct Read {
    history: History,
    number: usize,
}

impl History {
    /// Notes that a client is about to add to a counter.
    #[must_use]
    pub fn add(&self, counter: &str, amount: u64) -> Addition {
        Addition {
            number: self.note(Event::Add { counter: counter.to_owned(), amount }),
            history: self.clone(),
        }
    }

    /// Notes that a reader is about to read a counter.
    #[must_use]
    pub fn read(&self, counter: &str) -> Read {
        Read { number: self.note(Event::Read { counter: counter.to_owned() }), history: self.clone() }
    }

    /// Notes that all faults have ended, and that everything acknowledged so far must be visible.
    pub fn settle(&self) {
        self.note(Event::Settle);
    }

    /// Returns the sum of the acknowledged additions to a counter.
    #[must_use]
    pub fn acknowledged(&self, counter: &str) -> u64 {
        let events = self.events();
        let amount = |event: &Event| match event {
            Event::Acknowledge { addition, .. } => match &events[*addition] {
                Event::Add { counter: added, amount } if added == counter => *amount,
                _ => 0,
            },
            _ => 0,
        };
        events.iter().map(amount).sum()
    }

    /// Checks each read and each acknowledgment.
    ///
    /// # Errors
    ///
    /// Returns the first violation.
    pub fn check(&self, promise: Promise) -> Result<Summary, Violation> {
        check::check(&self.events(), promise)
    }

    /// Writes the notes to a file with this name in the folder `COUNTER_HISTORIES`, if it is set.
    ///
    /// # Panics
    ///
    /// Panics if the file can't be written.
    pub fn save(&self, name: &str) {
        if let Some(folder) = std::env::var_os("COUNTER_HISTORIES") {
            let path = PathBuf::from(folder).join(name);
            fs::write(&path, self.to_string()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }

    fn note(&self, event: Event) -> usize {
        let events = &mut *self.events();
        events.push(event);
        events.len() - 1
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Addition {
    /// Notes that the addition was acknowledged.
    pub fn acknowledge(self) {
        self.history.note(Event::Acknowledge { addition: self.number, count: None });
    }

    /// Notes that the addition was acknowledged with the new count.
    pub fn acknowledge_with(self, count: u64) {
        self.history.note(Event::Acknowledge { addition: self.number, count: Some(count) });
    }

    /// Notes that the addition was rejected, i.e. it does not count.
    pub fn reject(self) {
        self.history.note(Event::Reject { addition: self.number });
    }
}

impl Read {
    /// Notes the count that was read.
    pub fn see(self, count: u64) {
        self.history.note(Event::See { read: self.number, count });
    }
}

impl fmt::Display for History {
    /// Writes one note per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events().iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}
