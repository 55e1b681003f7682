use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::line;
use super::line::{Record, UniqueDumped, parse};
use crate::error::{Error, ErrorKind};
use crate::family::line::{LINE, Position, Sealed};
use crate::unique::store::UniqueStore;

/// A restore of unique counters that is under way: see [the module](crate::unique::dump).
///
/// Pass every line to [`line`](Self::line), in order, and then call [`finish`](Self::finish). Counters keep their kind. An
/// adaptive counter stays exact up to 10,000 items, whatever its threshold: the next
/// [`include`](crate::unique::UniqueCounter::include) goes by that.
#[derive(Debug)]
pub struct UniqueRestore {
    store: Arc<dyn UniqueStore>,
    position: Position,
    has_ended: bool,
    /// Account of what the lines held.
    read: UniqueDumped,
    restored: UniqueRestored,
}

/// The outcome of a restore of unique counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UniqueRestored {
    /// Counters, by the dump's own account; 0 before its last line.
    pub counters: u64,
    /// Items that the store has now.
    pub items: u64,
    /// Items among them that it had not before; where a counter has registers, items that raised one.
    pub added: u64,
    /// Sketches whose registers were merged into counters.
    pub sketches: u64,
    /// Items and sketches of counters under whose key the store holds something else.
    pub refused: u64,
    /// Counters that could not be read when the dump was made, and that are therefore missing in it.
    pub unreadable: u64,
}

/// An error of a restore of unique counters. What was added before stays, and counts once when the restore is repeated.
#[derive(Clone)]
#[non_exhaustive]
pub enum UniqueRestoreError {
    /// A line is not what it should be. Nothing of it was added, and the restore can go on with a good one.
    Malformed {
        /// The number that the line should have, from 1.
        line: u64,
        /// The text of what was expected.
        expected: String,
    },
    /// There were no more lines, and this was not the last one: the rest is missing.
    Torn {
        /// The number of the line.
        line: u64,
    },
    /// The store did not take the line, or did not say so. Nothing is lost: pass the same line again.
    Store(Error),
}

impl UniqueRestore {
    /// The length of the longest line, in bytes without its end: 64 KiB.
    pub const MAX_LINE: usize = LINE;

    /// Begins a restore into a store.
    #[must_use]
    pub fn new(store: impl UniqueStore) -> Self {
        Self {
            store: Arc::new(store),
            position: Position::START,
            has_ended: false,
            read: UniqueDumped::default(),
            restored: UniqueRestored::default(),
        }
    }

    /// Returns whether a line is one of unique counters, by its beginning: in a file that has others, too.
    #[must_use]
    pub fn is_line(line: &[u8]) -> bool {
        line::is_line(line)
    }

    /// Takes the next line, with or without its end, and adds what it holds; an empty line is passed over.
    ///
    /// Lines have numbers and checksums, so that none can be missing, come twice or be damaged. A line has at most
    /// [`MAX_LINE`](Self::MAX_LINE) bytes.
    ///
    /// # Errors
    /// Fails when the line is malformed, or when the store did not take it; call again with the same, or with a better
    /// one.
    ///
    /// # Cancel safety
    /// A future that is dropped may have added the line; call again with the same.
    pub async fn line(&mut self, line: &[u8]) -> Result<(), UniqueRestoreError> {
        self.take(line.trim_ascii()).await
    }

    /// Returns what became of the lines, if all were there; where there was none, there were no unique counters.
    ///
    /// # Errors
    /// Fails when the last line is missing.
    pub const fn finish(&self) -> Result<UniqueRestored, UniqueRestoreError> {
        if self.position.line() > 0 && !self.has_ended {
            return Err(UniqueRestoreError::Torn { line: self.position.line() });
        }
        Ok(self.restored)
    }

    /// Returns what became of the lines until now.
    #[must_use]
    pub const fn restored(&self) -> UniqueRestored {
        self.restored
    }

    /// Returns the number of lines that were taken.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.position.line()
    }

    fn take<'a>(&'a mut self, text: &'a [u8]) -> BoxFuture<'a, Result<(), UniqueRestoreError>> {
        Box::pin(async move {
            if text.is_empty() {
                return Ok(());
            }
            let due = self.position.due();
            let malformed = |expected| UniqueRestoreError::Malformed { line: due, expected };
            let sealed = Sealed::of(text);
            let (number, record) = parse(&sealed.text).map_err(malformed)?;
            if self.has_ended {
                return Err(malformed("no line after the last of the unique counters".to_owned()));
            }
            let line = |due| format!("the line {due} of the unique counters");
            let next = self.position.after(&sealed, number, line).map_err(malformed)?;
            if (due == 1) != (record == Record::Begin) {
                return Err(malformed("the first line of the unique counters, once".to_owned()));
            }
            match record {
                Record::Begin | Record::Unreadable => {}
                Record::Items { counter, items } => {
                    let count = items.len() as u64;
                    let included = self.store.include(&counter, &items).await;
                    if let Some(included) = self.unless_refused(included, count)? {
                        self.restored.items += count;
                        self.restored.added += included.new;
                    }
                    self.read.items += count;
                }
                Record::Registers { counter, sketch } => {
                    let absorbed = self.store.absorb(&counter, &sketch).await;
                    self.restored.sketches += u64::from(self.unless_refused(absorbed, 1)?.is_some());
                    self.read.sketches += 1;
                }
                Record::End(dumped) => {
                    let UniqueDumped { items, sketches, .. } = self.read;
                    if (items, sketches) != (dumped.items, dumped.sketches) {
                        let read = format!("{items} items and {sketches} sketches");
                        return Err(malformed(format!("the sums of the lines before: {read}")));
                    }
                    self.restored.counters = dumped.counters;
                    self.restored.unreadable = dumped.unreadable;
                    self.has_ended = true;
                }
            }
            self.position = next;
            Ok(())
        })
    }

    /// Counts what the store refuses because its key holds something else, which would hold up all the rest.
    fn unless_refused<T>(
        &mut self,
        answer: Result<T, Error>,
        entries: u64,
    ) -> Result<Option<T>, UniqueRestoreError> {
        match answer {
            Err(error) if matches!(error.kind(), ErrorKind::Malformed { .. }) => {
                self.restored.refused += entries;
                Ok(None)
            }
            answer => answer.map(Some).map_err(UniqueRestoreError::Store),
        }
    }
}

impl fmt::Display for UniqueRestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { line, expected } => {
                write!(f, "line {line} of the unique counters: expected {expected}")
            }
            Self::Torn { line } => {
                write!(f, "the unique counters end after line {line}, which is not their last")
            }
            Self::Store(_) => f.write_str("the store did not take the unique counters"),
        }
    }
}

impl std::error::Error for UniqueRestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

crate::log::debug::debug_in_full!(UniqueRestoreError);
