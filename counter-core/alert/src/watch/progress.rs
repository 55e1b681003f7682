//! Progress of all processes: a bucket is evaluated when the store has the hits of all live processes.
//!
//! When the store recovers from an outage, we do not want to evaluate buckets until the flushers have sent
//! their hits. Therefore, a watch writes a mark into a shared document: the instant up to which the store has
//! all hits of this process. A bucket will be evaluated when the marks of all live processes are past the
//! bucket end, or otherwise after [`MAX_WAIT`].

use std::collections::BTreeMap;
use std::time::Duration;

use counter_core::document::{Document, DocumentStore};
use counter_core::internal::change_document;
use counter_core::{Error, ErrorKind, Timestamp};
use serde::{Deserialize, Serialize};

use super::state::MAX_CLOCK_SKEW;

/// The marks of all processes, by watch id.
type Marks = BTreeMap<String, Mark>;

/// The progress mark of a process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Mark {
    /// The instant up to which the store has all hits of the process, in Unix seconds of the store clock.
    complete: u64,
    /// The instant until which the process is considered live, in Unix seconds of the store clock.
    until: u64,
}

/// The progress mark of this process, to be written to the store.
#[derive(Debug)]
pub(super) struct PendingMark {
    holder: String,
    mark: Mark,
    now: Timestamp,
}

/// The progress of all processes, from the perspective of a watch.
#[derive(Debug)]
pub(super) struct Progress {
    /// The random id of this watch.
    holder: String,
    /// The time in seconds for which a mark is live.
    ttl: u64,
    /// The time of the latest pass that reached the store.
    last_pass: Timestamp,
    /// The time of the latest pass before the store became unavailable. Processes that were live at this time
    /// might still hold hits, even if their marks have expired.
    live_at: Option<Timestamp>,
    /// The time at which we started to wait for processes that hold hits, if we are waiting.
    waiting_since: Option<Timestamp>,
}

/// The buckets ready for evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    /// The instant up to which buckets can be evaluated.
    pub(super) end: Timestamp,
    /// The instant up to which we know that the store has all hits.
    pub(super) complete: Timestamp,
}

/// The name of the document with the marks of all processes, in the [`DocumentStore`].
pub(super) const DOCUMENT: &str = "alert-progress";

/// The maximum time to wait for a process that holds hits, in seconds.
pub(super) const MAX_WAIT: u64 = 60;

/// The minimum time for which a mark is live.
const MIN_MARK_TTL: Duration = Duration::from_secs(30);

/// The time in seconds to keep the mark of a stopped process.
const MARK_RETENTION: u64 = 3600;

/// The maximum number of marks to keep. The oldest marks will be removed.
const MAX_MARKS: usize = 1000;

impl Progress {
    /// Creates the progress for a watch with this interval.
    pub(super) fn new(holder: String, interval: Duration) -> Self {
        let ttl = interval.saturating_mul(3).max(MIN_MARK_TTL).as_secs();
        Self { holder, ttl, last_pass: Timestamp::MIN, live_at: None, waiting_since: None }
    }

    /// Returns the mark of this process, given that the store has all hits up to `complete`, and the buckets
    /// that can be evaluated.
    ///
    /// A bucket will never be evaluated if it ends after `end`.
    ///
    /// # Errors
    /// Fails if the document can't be decoded.
    pub(super) fn mark(
        &mut self,
        document: &Document,
        complete: Timestamp,
        end: Timestamp,
        now: Timestamp,
    ) -> Result<(PendingMark, Closed), Error> {
        let mark = Mark { complete: complete.as_unix(), until: now.plus(self.ttl).as_unix() };
        let pending = PendingMark { holder: self.holder.clone(), mark, now };
        let closed = self.closed(&pending.merge_into(document)?, end, now);
        Ok((pending, closed))
    }

    /// Removes the mark of this process on shutdown.
    pub(super) async fn leave(&self, store: &dyn DocumentStore) -> Result<(), Error> {
        let document = store.read(DOCUMENT).await?;
        let mut marks = decode(&document, self.last_pass)?;
        if marks.remove(&self.holder).is_some() {
            // If another process has just replaced the document, we let the mark expire.
            store.replace(DOCUMENT, document.version, &encode(&marks)).await?;
        }
        Ok(())
    }

    /// Records a failed pass, because other processes may also have been unable to write their marks.
    pub(super) fn fail(&mut self) {
        self.live_at.get_or_insert(self.last_pass);
        self.waiting_since = None;
    }

    fn closed(&mut self, marks: &Marks, end: Timestamp, now: Timestamp) -> Closed {
        self.last_pass = now;
        let live_at = self.live_at.unwrap_or(now).min(now).as_unix();
        let live = marks.values().filter(|mark| mark.until >= live_at);
        let complete = live.map(|mark| Timestamp::from_unix(mark.complete)).min().unwrap_or(now);
        if complete >= end {
            (self.live_at, self.waiting_since) = (None, None);
            return Closed { end, complete };
        }
        let since = *self.waiting_since.get_or_insert(now);
        if now < since.plus(MAX_WAIT) {
            return Closed { end: complete, complete };
        }
        self.live_at = None;
        Closed { end: complete.max(end.minus(MAX_WAIT)), complete }
    }
}

impl PendingMark {
    /// Returns all marks, including this mark.
    fn merge_into(&self, document: &Document) -> Result<Marks, Error> {
        let mut marks = decode(document, self.now)?;
        marks.insert(self.holder.clone(), self.mark);
        Ok(marks)
    }

    /// Writes the mark into the document. If this keeps conflicting with other processes, the next pass will
    /// try again.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub(super) async fn write(self, store: &dyn DocumentStore, document: Document) -> Result<(), Error> {
        // The document was just read, so we usually do not need to read it again.
        if store.replace(DOCUMENT, document.version, &encode(&self.merge_into(&document)?)).await?.is_none() {
            change_document(store, DOCUMENT, |document| {
                Ok(((), Some(encode(&self.merge_into(&document?)?))))
            })
            .await?;
        }
        Ok(())
    }
}

/// Decodes a document, and drops the marks of stopped processes.
///
/// # Errors
/// Fails if the document is damaged, or from a version that we can't read. If it was replaced, buckets would be
/// evaluated without the hits of other processes.
fn decode(document: &Document, now: Timestamp) -> Result<Marks, Error> {
    let malformed = |error: serde_json::Error| {
        Error::new(ErrorKind::Malformed { key: DOCUMENT.to_owned() }).caused_by(error)
    };
    let mut marks = match &*document.content {
        [] => Marks::new(),
        content => serde_json::from_slice(content).map_err(malformed)?,
    };
    // A mark that expires later must be due to a store clock that was ahead.
    let retained = now.minus(MARK_RETENTION).as_unix()..now.plus(MAX_CLOCK_SKEW).as_unix();
    marks.retain(|_, mark| retained.contains(&mark.until));
    while marks.len() >= MAX_MARKS {
        let oldest = marks.iter().min_by_key(|(_, mark)| mark.until).map(|(holder, _)| holder.clone());
        marks.remove(&oldest.unwrap_or_default());
    }
    Ok(marks)
}

fn encode(marks: &Marks) -> Vec<u8> {
    serde_json::to_vec(marks).expect("keys are strings")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(second: u64) -> Timestamp {
        Timestamp::from_unix(100_000 + second)
    }

    fn marks(of: &[(u64, u64)]) -> Marks {
        let mark = |(at_second, complete): &(u64, u64)| Mark {
            complete: at(*complete).as_unix(),
            until: at(at_second + 30).as_unix(),
        };
        of.iter().enumerate().map(|(n, of)| (n.to_string(), mark(of))).collect()
    }

    /// Returns the seconds up to which buckets can be evaluated, and up to which the hits are complete.
    fn closed(progress: &mut Progress, of: &[(u64, u64)], now: u64) -> (u64, u64) {
        let Closed { end, complete } = progress.closed(&marks(of), at(now - 15), at(now));
        (end.as_unix() - 100_000, complete.as_unix() - 100_000)
    }

    #[test]
    fn buckets_wait_for_live_processes_with_unsent_hits_but_not_for_stopped_ones() {
        let mut progress = Progress::new(String::new(), 10 * SECOND);
        assert_eq!(closed(&mut progress, &[(100, 100), (95, 95)], 100), (85, 95));
        assert_eq!(closed(&mut progress, &[(110, 110), (105, 80)], 110), (80, 80));
        assert_eq!(closed(&mut progress, &[(120, 120), (115, 115)], 120), (105, 115));
        // The second process has stopped writing marks.
        assert_eq!(closed(&mut progress, &[(145, 145), (115, 115)], 145), (115, 115));
        assert_eq!(closed(&mut progress, &[(146, 146), (115, 115)], 146), (131, 146));
    }

    #[test]
    fn after_an_outage_buckets_wait_for_previously_live_processes() {
        let mut progress = Progress::new(String::new(), 10 * SECOND);
        assert_eq!(closed(&mut progress, &[(100, 100), (95, 95)], 100), (85, 95));
        progress.fail();
        progress.fail();
        assert_eq!(closed(&mut progress, &[(700, 101), (95, 95)], 700), (95, 95));
        assert_eq!(closed(&mut progress, &[(710, 710), (95, 95)], 710), (95, 95));
        assert_eq!(closed(&mut progress, &[(720, 720), (715, 715)], 720), (705, 715));
    }

    #[test]
    fn the_wait_is_limited_to_a_minute() {
        let mut progress = Progress::new(String::new(), 10 * SECOND);
        progress.fail();
        for second in [700, 710, 759] {
            assert_eq!(closed(&mut progress, &[(second, second), (95, 95)], second), (95, 95));
        }
        assert_eq!(closed(&mut progress, &[(760, 760), (95, 95)], 760), (685, 95));
        assert_eq!(closed(&mut progress, &[(770, 770), (95, 95)], 770), (755, 770));
        // A live process that does not send hits will delay all buckets by a minute.
        assert_eq!(closed(&mut progress, &[(790, 770)], 790), (770, 770));
        assert_eq!(closed(&mut progress, &[(850, 770)], 850), (775, 770));
    }

    #[test]
    fn a_document_that_cannot_be_decoded_is_not_replaced() {
        let mut progress = Progress::new("a".to_owned(), 10 * SECOND);
        for content in ["no JSON", "[]", "{\"b\":{\"until\":[]}}"] {
            let mut document = Document::default();
            document.content = content.as_bytes().to_vec();
            let error = progress.mark(&document, at(0), at(0), at(0)).map(drop).expect_err(content);
            assert_eq!(*error.kind(), ErrorKind::Malformed { key: "alert-progress".to_owned() });
        }
    }

    #[test]
    fn expired_marks_and_marks_from_the_future_are_removed() {
        let retained = |until: u64| {
            let marks = Marks::from([("a".to_owned(), Mark { complete: 0, until })]);
            let mut document = Document::default();
            document.content = encode(&marks);
            !decode(&document, at(0)).expect("marks").is_empty()
        };
        assert!(retained(at(0).as_unix()) && retained(at(30).as_unix()));
        assert!(!retained(at(0).as_unix() - 3601) && !retained(u64::MAX));
    }
}
