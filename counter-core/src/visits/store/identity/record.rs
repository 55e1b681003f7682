use std::fmt::Write;

use super::stored_grid;
use super::stored_grid::GridMismatch;
use crate::document::Document;
use crate::document::change::change_document;
use crate::error::{Error, ErrorKind};
use crate::family::store_id::StoreId;
use crate::time::{Grid, Timestamp};
use crate::visits::store::Store;

/// Name of the document with the record, in the [documents](crate::document) of a store.
const NAME: &str = "store";

/// Maximum number of restored stores, and of copied stores, that we remember. The oldest will be dropped.
#[cfg(any(feature = "archive", feature = "dump"))]
const MAX_STORES: usize = 500;

/// The record that a store keeps about itself. In the document, a line consists of a keyword and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreRecord {
    pub(crate) id: StoreId,
    /// The creation time of the id, by the store clock.
    pub(crate) created: Timestamp,
    pub(crate) grid: Option<Grid>,
    /// Stores restored into this store, with the id of the dump.
    pub(crate) restored: Vec<(StoreId, String)>,
    /// Stores for which this store is the archive, with the time of the latest check.
    pub(crate) copied: Vec<StoreUse>,
    /// The kind of the last copied store.
    pub(crate) copied_kind: String,
    /// Lines written by newer versions.
    rest: Vec<String>,
}

/// A store that was in use at a given time of the store clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreUse {
    pub(crate) id: StoreId,
    pub(crate) at: Timestamp,
}

/// Reads the record of a store with the store clock, creating the record if needed. Returns `None` if the
/// store does not support documents, or refuses to read them.
pub(crate) async fn read(store: &dyn Store) -> Result<Option<(StoreRecord, Timestamp)>, Error> {
    update(store, |_, _| ()).await
}

/// Reads the record of a store, or returns `None` if there is no record, or if documents are not supported or refused.
pub(crate) async fn peek(store: &dyn Store) -> Result<Option<StoreRecord>, Error> {
    let Some(documents) = store.info().documents else { return Ok(None) };
    match documents.read(NAME).await {
        Ok(document) => StoreRecord::of(&document),
        Err(error) if *error.kind() == ErrorKind::Rejected => Ok(None),
        Err(error) => Err(error),
    }
}

/// Updates the record of a store, and returns the new record with the store clock, like [`read`].
pub(crate) async fn update(
    store: &dyn Store,
    mut change: impl FnMut(&mut StoreRecord, Timestamp) + Send,
) -> Result<Option<(StoreRecord, Timestamp)>, Error> {
    let Some(documents) = store.info().documents else { return Ok(None) };
    let update = |document: Result<Document, Error>| {
        let document = match document {
            // Either the user is missing permissions, or the key belongs to another program.
            Err(error) if *error.kind() == ErrorKind::Rejected => return Ok((None, None)),
            document => document?,
        };
        let now = document.now.unwrap_or_else(Timestamp::now);
        let before = StoreRecord::of(&document)?;
        let mut record = before.clone().unwrap_or_else(|| StoreRecord::new(now));
        change(&mut record, now);
        let is_changed = before.as_ref() != Some(&record);
        let content = is_changed.then(|| record.to_text().into_bytes());
        Ok((Some((record, now)), content))
    };
    let lost = "the store record is being changed by other processes";
    let updated = change_document(documents, NAME, update).await?;
    updated.ok_or_else(|| Error::new(ErrorKind::Unavailable).caused_by(lost))
}

/// Returns whether a store can be the successor of the given stores. This is the case if it is one of them,
/// or if it was created after all of them were last in use, as happens when a store loses all of its data.
/// Clocks may differ by up to [`Health::CLOCK_SKEW_BOUND`](crate::Health::CLOCK_SKEW_BOUND).
#[cfg(any(feature = "archive", feature = "spool", test))]
pub(crate) fn follows(record: &StoreRecord, used: &[StoreUse]) -> bool {
    let last = used.iter().map(|used| used.at).max();
    used.iter().any(|used| used.id == record.id)
        || last
            .is_none_or(|last| last <= record.created.plus(crate::visits::ledger::Health::CLOCK_SKEW_BOUND))
}

impl StoreRecord {
    fn new(created: Timestamp) -> Self {
        Self {
            id: StoreId::random(),
            created,
            grid: None,
            restored: Vec::new(),
            copied: Vec::new(),
            copied_kind: String::new(),
            rest: Vec::new(),
        }
    }

    /// Parses a document, or returns `None` if it is empty.
    fn of(document: &Document) -> Result<Option<Self>, Error> {
        let record = Self::parse(&document.content);
        match record.is_some() || document.content.is_empty() {
            true => Ok(record),
            false => Err(Error::new(ErrorKind::Malformed { key: format!("document {NAME}") })),
        }
    }

    /// Adds the configured grid, unless the record already has a grid. If the grid in the record doesn't have
    /// distributions, they will be added.
    pub(crate) fn keep_grid(&mut self, configured: &Grid) {
        match &mut self.grid {
            None => self.grid = Some(configured.clone()),
            Some(retained) if retained.distributions.is_none() => {
                retained.distributions.clone_from(&configured.distributions);
            }
            Some(_) => {}
        }
    }

    /// Compares the stored grid, if any, to the configured grid.
    pub(crate) fn mismatch(&self, configured: &Grid) -> Option<GridMismatch> {
        GridMismatch::between(self.grid.as_ref()?, configured)
    }

    /// Returns the ids of all stores whose counts are in this store, starting with the store itself.
    #[cfg(any(feature = "archive", feature = "dump"))]
    pub(crate) fn contained(&self) -> impl Iterator<Item = StoreId> {
        let others = self.restored.iter().map(|(id, _)| *id).chain(self.copied.iter().map(|used| used.id));
        [self.id].into_iter().chain(others)
    }

    /// Returns whether counts of the given store were counted here, or have been copied into this store.
    #[cfg(feature = "dump")]
    pub(crate) fn counted(&self, id: StoreId) -> bool {
        self.id == id || self.copied.iter().any(|used| used.id == id)
    }

    /// Returns the dump from which the given store was restored, if it was a different dump.
    #[cfg(feature = "dump")]
    pub(crate) fn other_dump(&self, id: StoreId, dump: &str) -> Option<String> {
        let earlier = self.restored.iter().find(|(other, earlier)| *other == id && earlier != dump);
        earlier.map(|(_, earlier)| earlier.clone())
    }

    /// Returns the reason if the store `near`, with this kind, can't be copied into this store.
    #[cfg(feature = "archive")]
    pub(crate) fn copy_rejection(&self, near: &Self, kind: &str) -> Option<String> {
        if self.id == near.id {
            return Some("the archive is the same store: use another database".to_owned());
        }
        let (last, is_known) =
            (self.copied.last()?, |used: &StoreUse| near.contained().any(|id| id == used.id));
        let is_other_kind = !self.copied_kind.is_empty() && !kind.is_empty() && self.copied_kind != kind;
        if self.copied.iter().any(is_known) || !is_other_kind && follows(near, &self.copied) {
            return None;
        }
        Some(format!(
            "the archive belongs to the store {} ({}), but this is the store {} ({kind}): use another database as its \
             archive; to keep using the archive of a moved store, restore a dump of that store here first",
            last.id, self.copied_kind, near.id
        ))
    }

    /// Records that a store was restored from a dump.
    #[cfg(feature = "dump")]
    pub(crate) fn restore(&mut self, id: StoreId, dump: &str) {
        if !self.restored.iter().any(|(other, _)| *other == id) {
            self.restored.push((id, dump.to_owned()));
            let surplus = self.restored.len().saturating_sub(MAX_STORES);
            self.restored.drain(..surplus);
        }
    }

    /// Records that a store of this kind was copied at this time.
    #[cfg(feature = "archive")]
    pub(crate) fn copy(&mut self, used: StoreUse, kind: &str) {
        self.copied.retain(|other| other.id != used.id);
        self.copied.push(used);
        let surplus = self.copied.len().saturating_sub(MAX_STORES);
        self.copied.drain(..surplus);
        kind.clone_into(&mut self.copied_kind);
    }

    fn to_text(&self) -> String {
        let mut text = format!("id {} {}\n", self.id, self.created);
        if let Some(grid) = &self.grid {
            stored_grid::write(grid, &mut text);
        }
        for (id, dump) in &self.restored {
            let _ = writeln!(text, "restored {id} {dump}");
        }
        for StoreUse { id, at } in &self.copied {
            let _ = writeln!(text, "copied {id} {at}");
        }
        if !self.copied_kind.is_empty() {
            let _ = writeln!(text, "copied-kind {}", self.copied_kind);
        }
        for line in &self.rest {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Parses the output of [`to_text`](Self::to_text). Returns `None` if there is not an id.
    fn parse(content: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(content).ok()?;
        let (mut record, mut has_id) = (Self::new(Timestamp::MIN), false);
        let (mut counts, mut visitors, mut distributions) = (None, None, None);
        for line in text.lines() {
            let (word, values) = line.split_once(' ').unwrap_or((line, ""));
            let pair = values.split_once(' ');
            let id = pair.and_then(|(id, value)| Some((id.parse().ok()?, value)));
            let used =
                id.and_then(|(id, at)| Some(StoreUse { id, at: Timestamp::from_unix(at.parse().ok()?) }));
            match (word, id, used) {
                ("id", _, Some(used)) => (record.id, record.created, has_id) = (used.id, used.at, true),
                ("counts", ..) => counts = stored_grid::precisions(values),
                ("visitors", ..) => visitors = stored_grid::precisions(values),
                ("distributions", ..) => distributions = stored_grid::precisions(values),
                ("restored", Some((id, dump)), _) => record.restored.push((id, dump.to_owned())),
                ("copied", _, Some(used)) => record.copied.push(used),
                ("copied-kind", ..) => values.clone_into(&mut record.copied_kind),
                _ => record.rest.push(line.to_owned()),
            }
        }
        record.grid = counts.zip(visitors).map(|(counts, visitors)| Grid { counts, visitors, distributions });
        has_id.then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Precisions;
    use crate::visits::ledger::Health;

    fn used(id: StoreId, at: u64) -> StoreUse {
        StoreUse { id, at: Timestamp::from_unix(at) }
    }

    #[test]
    fn records_round_trip() {
        let mut record = StoreRecord::new(Timestamp::from_unix(1_585_908_965));
        assert_eq!(StoreRecord::parse(record.to_text().as_bytes()).as_ref(), Some(&record));
        let grid = Grid { counts: Precisions::default().utc_offset(19_800), ..Grid::default() };
        record.keep_grid(&grid);
        record.keep_grid(&Grid { distributions: Some(Precisions::default()), ..Grid::default() });
        record.restored.push((StoreId::random(), "a dump".to_owned()));
        record.copied.push(used(StoreId::random(), 7));
        "Redis, with a blank".clone_into(&mut record.copied_kind);
        record.rest.push("of a newer version".to_owned());
        assert_eq!(StoreRecord::parse(record.to_text().as_bytes()), Some(record.clone()));
        assert_eq!(record.grid.map(|retention| retention.counts), Some(grid.counts));
        for other in [&b"grid 60:120\n"[..], b"id x 7\n", b"\xff"] {
            assert_eq!(StoreRecord::parse(other), None);
        }
    }

    #[test]
    fn a_store_only_follows_stores_last_used_before_it_was_created() {
        let record = StoreRecord::new(Timestamp::from_unix(1000));
        let other = StoreId::random();
        for (used, expected, what) in [
            (vec![], true, "no store was known"),
            (vec![used(record.id, 9000)], true, "it is the same store"),
            (vec![used(record.id, 10), used(other, 9000)], true, "the store was switched back"),
            (
                vec![used(other, 1000 + Health::CLOCK_SKEW_BOUND)],
                true,
                "created after the last use of the lost store",
            ),
            (vec![used(other, 1001 + Health::CLOCK_SKEW_BOUND)], false, "both existed at the same time"),
        ] {
            assert_eq!(follows(&record, &used), expected, "{what}");
        }
    }
}
