use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::line;
use super::line::{Record, UniqueDumped, parse};
use crate::error::{Error, ErrorKind};
use crate::family::line::{MAX_LINE_BYTES, Position, Sealed};
use crate::family::restore_error::RestoreError;
use crate::unique::store::UniqueStore;

/// A running restore of unique counters: see [the module](crate::unique::dump).
///
/// Pass all lines to [`line`](Self::line) in order and then call [`finish`](Self::finish). The kind of a
/// counter doesn't change. An adaptive counter stays exact up to 10,000 items, as the dump doesn't include
/// the threshold: this will be applied by the next [`include`](crate::unique::UniqueCounter::include).
#[derive(Debug)]
pub struct UniqueRestore {
    store: Arc<dyn UniqueStore>,
    position: Position,
    has_ended: bool,
    /// Totals of the lines read to this point.
    read: UniqueDumped,
    restored: UniqueRestored,
}

/// The outcome of a unique counter restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UniqueRestored {
    /// Number of counters, as reported by the final line of the dump; 0 until this line is read.
    pub counters: u64,
    /// Number of items now in the store.
    pub items: u64,
    /// Number of items that are new to the store. If a counter has registers: items that raised a register.
    pub added: u64,
    /// Number of sketches merged into counters.
    pub sketches: u64,
    /// Number of items and sketches rejected because the store has an unrelated value at the counter key.
    pub rejected: u64,
    /// Number of counters that are missing from the dump because they could not be read.
    pub unreadable: u64,
}

impl UniqueRestore {
    /// Maximum line length in bytes without the line ending: 64 KiB.
    pub const MAX_LINE: usize = MAX_LINE_BYTES;

    /// Starts a restore into a store.
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

    /// Returns `true` if this looks like a unique counter line. Useful for files that contain other lines,
    /// too.
    #[must_use]
    pub fn is_line(line: &[u8]) -> bool {
        line::is_line(line)
    }

    /// Restores the next line, with or without the line ending. Empty lines are skipped.
    ///
    /// Lines contain a number and a checksum in order to detect missing, duplicate and damaged lines. The
    /// maximum length is [`MAX_LINE`](Self::MAX_LINE) bytes.
    ///
    /// # Errors
    /// Fails if the line is malformed, or if the store doesn't accept it. You can call this again with the
    /// same or a corrected line.
    ///
    /// # Cancel safety
    /// If the future is dropped, the line may already have been added. Retry with the same line.
    pub async fn line(&mut self, line: &[u8]) -> Result<(), RestoreError> {
        self.take(line.trim_ascii()).await
    }

    /// Returns the outcome if the input is complete. Empty input is valid and means that there are no unique
    /// counters.
    ///
    /// # Errors
    /// Fails if the final line is missing.
    pub const fn finish(&self) -> Result<UniqueRestored, RestoreError> {
        if self.position.line() > 0 && !self.has_ended {
            return Err(RestoreError::Truncated { line: self.position.line() });
        }
        Ok(self.restored)
    }

    /// Returns the outcome of all lines restored to this point.
    #[must_use]
    pub const fn restored(&self) -> UniqueRestored {
        self.restored
    }

    /// Returns the number of restored lines.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.position.line()
    }

    fn take<'a>(&'a mut self, text: &'a [u8]) -> BoxFuture<'a, Result<(), RestoreError>> {
        Box::pin(async move {
            if text.is_empty() {
                return Ok(());
            }
            let due = self.position.due();
            let malformed = |expected| RestoreError::Malformed { line: due, expected };
            let sealed = Sealed::of(text);
            let (number, record) = parse(&sealed.text).map_err(malformed)?;
            if self.has_ended {
                return Err(malformed("no more lines of unique counters".to_owned()));
            }
            let line = |due| format!("line {due} of the unique counters");
            let next = self.position.after(&sealed, number, line).map_err(malformed)?;
            if (due == 1) != (record == Record::Begin) {
                return Err(malformed("a single header line at the start of the unique counters".to_owned()));
            }
            match record {
                Record::Begin | Record::Unreadable => {}
                Record::Items { counter, items } => {
                    let count = items.len() as u64;
                    let included = self.store.include(&counter, &items).await;
                    if let Some(included) = self.unless_rejected(included, count)? {
                        self.restored.items += count;
                        self.restored.added += included.new;
                    }
                    self.read.items += count;
                }
                Record::Registers { counter, sketch } => {
                    let merged = self.store.merge_registers(&counter, &sketch).await;
                    self.restored.sketches += u64::from(self.unless_rejected(merged, 1)?.is_some());
                    self.read.sketches += 1;
                }
                Record::End(dumped) => {
                    let UniqueDumped { items, sketches, .. } = self.read;
                    if (items, sketches) != (dumped.items, dumped.sketches) {
                        let read = format!("{items} items and {sketches} sketches");
                        return Err(malformed(format!("the totals of the previous lines: {read}")));
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

    /// Counts entries that the store rejects because of an unrelated value at the key. Returning an error
    /// here would block the remaining restore.
    fn unless_rejected<T>(
        &mut self,
        reply: Result<T, Error>,
        entries: u64,
    ) -> Result<Option<T>, RestoreError> {
        match reply {
            Err(error) if matches!(error.kind(), ErrorKind::Malformed { .. }) => {
                self.restored.rejected += entries;
                Ok(None)
            }
            reply => reply.map(Some).map_err(RestoreError::Store),
        }
    }
}
