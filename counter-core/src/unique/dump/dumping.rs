use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::line::{Entry, UniqueDumped};
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::family::line::Lines;
use crate::time::Timestamp;
use crate::unique::counter::MAX_ITEM_BYTES;
use crate::unique::distinct::Contents;
use crate::unique::store::{UniqueKey, UniqueStore};

/// Maximum number of unreadable counters to report as lines; more are just counted.
const MAX_UNREADABLE_LINES: u64 = 1000;

/// A running dump of unique counters: see [the module](crate::unique::dump).
///
/// This is not a snapshot: it may or may not contain items that are added or removed while the dump is
/// running. If the server connection is lost within a counter, this counter can appear twice, but restoring a
/// duplicate has no effect.
pub struct UniqueDump {
    store: Arc<dyn UniqueStore>,
    /// Cursor of the next list page, or `None` at the end.
    page: Option<Option<Vec<u8>>>,
    /// Counters from the current page that still need to be read.
    counters: VecDeque<UniqueKey>,
    /// Cursor of the next part of the front counter.
    part: Option<Vec<u8>>,
    has_ended: bool,
    /// Lines ready to be returned.
    lines: Lines,
    dumped: UniqueDumped,
}

impl UniqueDump {
    /// Starts a dump of all unique counters in a store.
    #[must_use]
    pub fn new(store: impl UniqueStore) -> Self {
        Self {
            store: Arc::new(store),
            page: Some(None),
            counters: VecDeque::new(),
            part: None,
            has_ended: false,
            lines: Lines::new(),
            dumped: UniqueDumped::default(),
        }
    }

    /// Returns the next line without a line ending, or `None` at the end. A store without unique counters
    /// produces an empty dump.
    ///
    /// # Errors
    /// Fails if the store can't be read. The next call will resume at the same position.
    ///
    /// # Cancel safety
    /// Cancel safe: lines are not lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        if let Some(line) = self.lines.pop() {
            return Ok(Some(line));
        }
        self.advance().await
    }

    /// Returns the totals of all lines read to this point.
    #[must_use]
    pub const fn dumped(&self) -> UniqueDumped {
        self.dumped
    }

    fn advance(&mut self) -> StoreFuture<'_, Option<String>> {
        Box::pin(async {
            while self.lines.is_empty() {
                if let Some(counter) = self.counters.front().cloned() {
                    self.read(&counter).await?;
                } else if let Some(cursor) = self.page.clone() {
                    let list = self.store.list(cursor).await?;
                    self.dumped.counters += list.counters.len() as u64;
                    self.counters = list.counters.into();
                    self.page = list.next.map(Some);
                } else if !self.has_ended && self.lines.count() > 0 {
                    self.push(Entry::End(self.dumped));
                    self.has_ended = true;
                } else {
                    return Ok(None);
                }
            }
            Ok(self.lines.pop())
        })
    }

    /// Reads a part of a counter, produces lines, and advances to the next part or counter.
    async fn read(&mut self, counter: &UniqueKey) -> Result<(), Error> {
        self.part = match self.store.part(counter, self.part.clone()).await {
            Ok(part) => {
                self.push_contents(counter, part.contents);
                part.next
            }
            Err(error) => {
                let ErrorKind::Malformed { key } = error.kind() else { return Err(error) };
                self.push_unreadable(key, "the value has an unexpected type");
                None
            }
        };
        if self.part.is_none() {
            self.counters.pop_front();
        }
        Ok(())
    }

    fn push_contents(&mut self, counter: &UniqueKey, contents: Contents) {
        match contents {
            Contents::Items(mut items) => {
                let found = items.len();
                items.retain(|item| item.len() <= MAX_ITEM_BYTES);
                if items.len() < found {
                    self.push_unreadable(&counter.to_string(), "some items exceed the maximum length");
                }
                let mut items = items.into_iter();
                while let Some(entry) = Entry::items(counter, &mut items) {
                    self.dumped.items += entry.len();
                    self.push(entry);
                }
            }
            Contents::Registers(sketch) if sketch.is_empty() => {}
            Contents::Registers(sketch) => {
                self.dumped.sketches += 1;
                self.push(Entry::registers(counter, &sketch));
            }
        }
    }

    fn push_unreadable(&mut self, key: &str, reason: &str) {
        self.dumped.unreadable += 1;
        if self.dumped.unreadable <= MAX_UNREADABLE_LINES {
            self.push(Entry::unreadable(key, reason));
        }
    }

    fn push(&mut self, entry: Entry<'_>) {
        if self.lines.count() == 0 {
            self.lines.push(|line| Entry::begin(Timestamp::now()).text(line));
        }
        self.lines.push(|line| entry.text(line));
    }
}

impl fmt::Debug for UniqueDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The lines are omitted because they contain items.
        f.debug_struct("UniqueDump").field("dumped", &self.dumped).finish_non_exhaustive()
    }
}
