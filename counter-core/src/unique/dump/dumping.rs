use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::line::{Entry, UniqueDumped};
use crate::error::{Error, ErrorKind};
use crate::family::future::Answer;
use crate::family::line::Lines;
use crate::time::Timestamp;
use crate::unique::counter::ITEM_BYTES;
use crate::unique::distinct::Contents;
use crate::unique::store::{UniqueKey, UniqueStore};

/// The number of counters that are told in lines when they cannot be read; what follows is counted.
const TOLD: u64 = 1000;

/// A dump of unique counters that is being made: see [the module](crate::unique::dump).
///
/// It is no snapshot: items that are added or removed meanwhile may be in it or not. A counter comes twice where the
/// connection to its server was lost in the middle of it, which changes nothing where it is restored.
pub struct UniqueDump {
    store: Arc<dyn UniqueStore>,
    /// The page of the list that is next; `None` after the last.
    page: Option<Option<Vec<u8>>>,
    /// Counters that are listed and not yet read to their end.
    counters: VecDeque<UniqueKey>,
    /// The part of the first of them that is next.
    part: Option<Vec<u8>>,
    has_ended: bool,
    /// Lines that are ready.
    lines: Lines,
    dumped: UniqueDumped,
}

impl UniqueDump {
    /// Begins a dump of all unique counters of a store.
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

    /// Returns the next line, without an end of line; `None` after the last. A store without unique counters has no line.
    ///
    /// # Errors
    /// Fails when the store cannot be read; the next call goes on where this one was.
    ///
    /// # Cancel safety
    /// A future that is dropped loses no line.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        if let Some(line) = self.lines.pop() {
            return Ok(Some(line));
        }
        self.advance().await
    }

    /// Returns what the lines hold that were read until now.
    #[must_use]
    pub const fn dumped(&self) -> UniqueDumped {
        self.dumped
    }

    fn advance(&mut self) -> Answer<'_, Option<String>> {
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

    /// Makes the lines of a part of a counter, and goes on to the next one.
    async fn read(&mut self, counter: &UniqueKey) -> Result<(), Error> {
        self.part = match self.store.part(counter, self.part.clone()).await {
            Ok(part) => {
                self.push_contents(counter, part.contents);
                part.next
            }
            Err(error) => {
                let ErrorKind::Malformed { key } = error.kind() else { return Err(error) };
                self.push_unreadable(key, "it holds something else");
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
                items.retain(|item| item.len() <= ITEM_BYTES);
                if items.len() < found {
                    self.push_unreadable(
                        &counter.to_string(),
                        "some items are longer than any that is included",
                    );
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
        if self.dumped.unreadable <= TOLD {
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
        // Its lines have items.
        f.debug_struct("UniqueDump").field("dumped", &self.dumped).finish_non_exhaustive()
    }
}
