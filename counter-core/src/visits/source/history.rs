//! Cutoffs: the times at which the records of a source were counted, for archives.
//!
//! When the store counts a record, the time decides which buckets it still keeps. The far store of an archive gets the
//! other buckets, so it has to decide by the same time, even if it counts the record much later. So we note the time in
//! a document of the store, as a list of cutoffs: a cutoff applies to all records from its position on, up to the next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::document::change::change_document;
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::family::writer::WriterId;
use crate::time::{Grid, Retention, Timestamp};
use crate::visits::store::Store;

/// The part of a source that depends on when its records are counted.
#[derive(Debug)]
pub(super) struct History {
    /// Positions and times in ascending order.
    cutoffs: Vec<(u64, Timestamp)>,
    /// The precisions whose retention matters.
    retained: Vec<Retention>,
    archive: Option<Arc<dyn Settling>>,
    /// True if the cutoffs are in the document.
    is_written: bool,
    /// True if the far store has the final values for the last cutoff.
    is_settled: bool,
}

/// The far store of an archive, with the precisions that it keeps.
#[derive(Clone, Debug)]
pub(in crate::visits) struct FarStore {
    pub(in crate::visits) store: Arc<dyn Store>,
    pub(in crate::visits) parts: Vec<FarPart>,
    pub(in crate::visits) archive: Arc<dyn Settling>,
}

/// A precision of the far store.
#[derive(Clone, Debug)]
pub(in crate::visits) struct FarPart {
    /// The grid of the far store, with just this precision.
    pub(in crate::visits) grid: Arc<Grid>,
    /// The retention of the near store in this precision.
    pub(in crate::visits) near: Retention,
    pub(in crate::visits) near_visitors: Option<Retention>,
    pub(in crate::visits) near_bins: Option<Retention>,
    /// True if views have samples in this precision.
    pub(in crate::visits) has_views: bool,
    /// True if label values have visitors in this precision.
    pub(in crate::visits) has_label_people: bool,
}

/// Reports whether an archive has the final values of all buckets that the near store does not keep.
pub(in crate::visits) trait Settling: fmt::Debug + Send + Sync {
    /// Returns whether this is the case for buckets that were past retention at this time.
    fn is_settled(&self, at: Timestamp) -> StoreFuture<'_, bool>;
}

/// The time from the end of retention to the cutoff, in seconds. This is half of the default lateness of a copier, so that
/// hits are in the near store before the final copy.
pub(in crate::visits) const LATENESS: u64 = 60;

/// The finest precision for which an archive could be added later.
const FINEST_SECONDS: u32 = 3600;

/// The maximum number of cutoffs. If there are more, the archive no longer adds the earliest records.
const MAX_CUTOFFS: usize = 1000;

/// How long to wait for the final values.
const MAX_WAIT: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl History {
    /// Reads the cutoffs of a source.
    pub(super) async fn read(
        store: &dyn Store,
        writer: WriterId,
        grid: &Grid,
        far: Option<&FarStore>,
    ) -> Result<Self, Error> {
        let documents = store.info().documents.ok_or_else(unsupported)?;
        let name = name(writer);
        // Without all cutoffs, records would be counted in other buckets than before.
        let Some(cutoffs) = parse(&documents.read(&name).await?.content) else {
            return Err(
                Error::new(ErrorKind::Malformed { key: name }).caused_by("the document is damaged or newer")
            );
        };
        let retained = match far {
            Some(far) => far.parts.iter().map(|part| part.near).collect(),
            None => grid.counts.iter().filter(|one| one.precision.as_seconds() >= FINEST_SECONDS).collect(),
        };
        let archive = far.map(|far| Arc::clone(&far.archive));
        Ok(Self { cutoffs, retained, archive, is_written: true, is_settled: false })
    }

    /// Returns the cutoff of the record at this position, or `None` if it was counted without a cutoff.
    pub(super) fn cutoff(&self, position: u64) -> Option<Timestamp> {
        let after = self.cutoffs.partition_point(|(from, _)| *from <= position);
        Some(self.cutoffs[after.checked_sub(1)?].1)
    }

    /// Returns the first position with a cutoff.
    pub(super) fn start(&self) -> Option<u64> {
        Some(self.cutoffs.first()?.0)
    }

    /// Returns the time that decides which buckets the store keeps.
    pub(super) fn clock(&self) -> Timestamp {
        let latest = latest();
        self.cutoffs.last().map_or(latest, |(_, at)| if self.is_same(*at, latest) { latest } else { *at })
    }

    /// Returns whether the records from `position` on need a new cutoff.
    pub(super) fn is_due(&self, position: u64) -> bool {
        self.cutoffs.last().is_none_or(|(from, at)| *from > position || !self.is_same(*at, latest()))
    }

    /// Adds a cutoff for the records from `position` on, if needed, and writes it.
    pub(super) async fn renew(
        &mut self,
        store: &dyn Store,
        writer: WriterId,
        position: u64,
    ) -> Result<(), Error> {
        if self.is_due(position) {
            self.cutoffs.retain(|(from, _)| *from < position);
            self.cutoffs.push((position, latest()));
            let surplus = self.cutoffs.len().saturating_sub(MAX_CUTOFFS);
            self.cutoffs.drain(..surplus);
            // They must be written before any of the records is counted.
            (self.is_written, self.is_settled) = (false, false);
        }
        self.write(store, writer).await
    }

    /// Removes all cutoffs.
    pub(super) async fn forget(&mut self, store: &dyn Store, writer: WriterId) -> Result<(), Error> {
        self.cutoffs.clear();
        self.is_written = false;
        self.write(store, writer).await
    }

    /// Writes the cutoffs, unless this is done.
    pub(super) async fn write(&mut self, store: &dyn Store, writer: WriterId) -> Result<(), Error> {
        if self.is_written {
            return Ok(());
        }
        let lines = self.cutoffs.iter().map(|(position, at)| format!("{position} {at}\n"));
        let content = lines.collect::<String>().into_bytes();
        let documents = store.info().documents.ok_or_else(unsupported)?;
        let name = name(writer);
        let changed = change_document(documents, &name, |document| {
            document?;
            Ok(((), Some(content.clone())))
        });
        changed.await?.ok_or_else(|| Error::new(ErrorKind::Unavailable))?;
        self.is_written = true;
        Ok(())
    }

    /// Waits until the far store has the final values of all buckets to which records can be added.
    pub(super) async fn wait_until_settled(&mut self) -> Result<(), Error> {
        let (Some(archive), Some((_, at))) = (&self.archive, self.cutoffs.last()) else { return Ok(()) };
        let mut waited = Duration::ZERO;
        while !self.is_settled && !archive.is_settled(*at).await? {
            if waited >= MAX_WAIT {
                return Err(
                    Error::new(ErrorKind::Unavailable).caused_by("no copier has copied the final values yet")
                );
            }
            sleep(POLL_INTERVAL).await;
            waited += POLL_INTERVAL;
        }
        self.is_settled = true;
        Ok(())
    }

    /// Returns whether the store keeps the same buckets at both times.
    fn is_same(&self, one: Timestamp, other: Timestamp) -> bool {
        self.retained.iter().all(|retention| retention.oldest(one) == retention.oldest(other))
    }
}

fn latest() -> Timestamp {
    Timestamp::now().minus(LATENESS)
}

fn name(writer: WriterId) -> String {
    format!("cutoffs:{writer}")
}

/// Parses cutoffs. Returns `None` if this is not possible for all of them.
fn parse(content: &[u8]) -> Option<Vec<(u64, Timestamp)>> {
    let text = str::from_utf8(content).ok()?;
    let cutoff = |line: &str| {
        let (position, at) = line.split_once(' ')?;
        Some((position.parse().ok()?, Timestamp::from_unix(at.parse().ok()?)))
    };
    text.lines().map(cutoff).collect()
}

fn unsupported() -> Error {
    Error::new(ErrorKind::Rejected).caused_by("the store does not support documents")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::MemoryStore;

    const HOUR: u64 = 3600;

    async fn read(store: &MemoryStore, writer: WriterId) -> History {
        History::read(store.as_ref(), writer, &Grid::default(), None).await.expect("in memory")
    }

    #[tokio::test]
    async fn records_keep_the_cutoff_of_the_time_at_which_they_were_counted() {
        let (store, writer) = (MemoryStore::new(), WriterId::random());
        let mut history = read(&store, writer).await;
        assert!(history.is_due(0) && history.cutoff(0).is_none());
        let old = latest().minus(2 * HOUR);
        (history.cutoffs, history.is_written) = (vec![(5, old)], false);
        history.write(store.as_ref(), writer).await.expect("in memory");
        assert_eq!(history.clock(), old, "the store still counts by the cutoff");

        // The hour has ended. Only later records have a new cutoff, also after a restart.
        let mut history = read(&store, writer).await;
        history.renew(store.as_ref(), writer, 10).await.expect("in memory");
        for history in [&history, &read(&store, writer).await] {
            assert_eq!([4, 5, 9].map(|position| history.cutoff(position)), [None, Some(old), Some(old)]);
            assert!(history.cutoff(10) >= Some(old.plus(2 * HOUR)) && history.start() == Some(5));
        }

        // If the store returns to an earlier position, it counts these records again, by a new cutoff.
        assert!(history.is_due(7));
        history.renew(store.as_ref(), writer, 7).await.expect("in memory");
        assert!(history.cutoff(6) == Some(old) && history.cutoff(7) > Some(old));
        history.forget(store.as_ref(), writer).await.expect("in memory");
        assert_eq!(read(&store, writer).await.cutoffs, []);
    }

    #[tokio::test]
    async fn cutoffs_that_cannot_be_read_are_not_replaced() {
        for wrong in ["5", "5 100\nx 200\n", "5 100 1\n"] {
            let (store, writer) = (MemoryStore::new(), WriterId::random());
            let dynamic: &dyn Store = store.as_ref();
            let documents = dynamic.info().documents.expect("supported");
            documents
                .replace(&name(writer), 0, wrong.as_bytes())
                .await
                .expect("in memory")
                .expect("there is none");
            let error = History::read(store.as_ref(), writer, &Grid::default(), None)
                .await
                .map(drop)
                .expect_err(wrong);
            assert_eq!(*error.kind(), ErrorKind::Malformed { key: name(writer) });
        }
    }

    #[tokio::test]
    async fn cutoffs_are_bounded_and_only_written_if_they_change() {
        let (store, writer) = (MemoryStore::new(), WriterId::random());
        let mut history = read(&store, writer).await;
        let old = latest().minus(2 * HOUR);
        history.cutoffs = (0..MAX_CUTOFFS as u64).map(|position| (position, old)).collect();
        for _ in 0..2 {
            history.renew(store.as_ref(), writer, 5000).await.expect("in memory");
            assert_eq!((history.cutoffs.len(), history.start()), (MAX_CUTOFFS, Some(1)));
            assert!(history.is_written);
        }
    }
}
