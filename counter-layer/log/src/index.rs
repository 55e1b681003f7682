//! An index of the logs with the same name, based on a sample of lines.

pub(super) mod marks;
pub(super) mod error;
mod day;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use counter_core::Error;
use counter_core::document::{Document, DocumentStore};
use counter_core::internal::change_document;
use counter_core::source::SourceName;
use counter_core::visitor::VisitorKey;
use tokio::task::yield_now;

use crate::format::Parser;
use crate::lines::Lines;
use day::{Day, KnownLogs, LogId};
use error::LogIndexError;
use marks::{Mark, Marks, insert_smallest};

/// Recognizes lines that have already been counted as part of a different log.
///
/// A [source](counter_core::source) counts each position of a log once. However, it can't detect if the log
/// is a part of a different log, e.g. because lines at the start were removed or logs were merged. Therefore,
/// you should call [`admit`](Self::admit) before counting a log, to compare it with the [marks](Marks) of all
/// logs with the same name. It rejects the log if
///
/// - it contains at least half of the marked lines of a different log in the same period, in at least two
///   different seconds. If these lines have fewer than four different requests, the marked lines in the period
///   of both logs must all be the same, because different servers may get the same health checks; or
/// - it starts with the same line as a different log, but lacks at least a quarter of the marked lines that
///   follow.
///
/// Logs of up to 256 lines per day are compared completely. In larger logs, an excerpt of 3 % of a day is
/// recognized with a probability of 99.6 %. Lines can't be recognized if the time, request or size was
/// changed.
///
/// The marks of a day are stored in a document, which takes about 2 KB per log and is never deleted.
///
/// ```
/// use counter_core::MemoryStore;
/// use counter_core::source::SourceName;
/// use counter_log::{Format, Lines, LogIndex, LogIndexError, Parser};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let log: String = (10..30)
///     .map(|n| {
///         format!("192.0.2.{n} - - [27/Nov/2026:10:00:{n} +0000] \"GET /{n} HTTP/1.1\" 200 5 \"-\" \"-\"\n")
///     })
///     .collect();
/// let (_, rest) = log.split_at(log.len() / 2);
///
/// let index = LogIndex::new(MemoryStore::new(), "web-1");
/// let admit = async |name: &'static str, log: &str| {
///     let parser = Parser::new(Format::combined());
///     index.admit(&SourceName::new(name).expect("short"), 0, parser, Lines::new(log.as_bytes(), 0)).await
/// };
/// admit("access.log", &log).await?;
/// let error = admit("the rest of access.log", rest).await.unwrap_err();
/// assert!(matches!(error, LogIndexError::Counted { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LogIndex {
    store: Arc<dyn DocumentStore>,
    /// The hash of the name that the logs share, used in document names.
    site: String,
}

/// Maximum number of logs per day. If this is exceeded, the oldest log is removed.
const MAX_LOGS: usize = 64;

/// Number of lines after which to yield to other tasks.
const LINES_BEFORE_YIELD: u64 = 10_000;

/// The version of the document format.
const VERSION: u8 = 1;

/// The key for log ids. This can be public, because ids only identify logs, not visitors.
const KEY: VisitorKey = VisitorKey::new(*b"names of logs' \x01");

impl LogIndex {
    /// Creates an index for the logs with this name, e.g. a server name. Only logs with the same name are
    /// compared.
    pub fn new(store: impl DocumentStore, name: &str) -> Self {
        let site = KEY.visitor(&[b"site", name.as_bytes()]);
        let site = site.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { store: Arc::new(store), site }
    }

    /// Compares a log with the logs that have already been counted, and [notes](Self::note) it. `log` is the
    /// source name. `lines` must start at the beginning of the log. Lines before the position `counted` have
    /// already been counted by this source.
    ///
    /// # Errors
    /// Fails if the log is rejected, or if the log or the store can't be read.
    pub async fn admit<R: Read>(
        &self,
        log: &SourceName,
        counted: u64,
        mut parser: Parser,
        mut lines: Lines<R>,
    ) -> Result<(), LogIndexError> {
        let (log_id, mut marks, mut days) = (id(log), Marks::default(), BTreeMap::<u64, Day>::new());
        let mut read = 0_u64;
        while let Some(line) = lines.next().map_err(LogIndexError::Log)? {
            read += 1;
            if read.is_multiple_of(LINES_BEFORE_YIELD) {
                yield_now().await;
            }
            let is_new = line.range.start >= counted;
            let Ok(Some(line)) = parser.parse(line.text) else { continue };
            let (day, mark) = Mark::of(&line);
            marks.insert(day, mark);
            let day = match days.entry(day) {
                Entry::Occupied(day) => day.into_mut(),
                Entry::Vacant(entry) => {
                    let known = self.read(day).await.map_err(LogIndexError::Store)?;
                    entry.insert(Day::new(known))
                }
            };
            day.compare(log_id, &line, mark, is_new);
        }
        for (number, day) in days {
            day.check(log_id, number)?;
        }
        self.note(log, &marks).await.map_err(LogIndexError::Store)
    }

    /// Stores the marks of lines that have been or are about to be counted.
    ///
    /// # Errors
    /// Fails if the store can't be read or written. You can retry with the same marks.
    pub async fn note(&self, log: &SourceName, marks: &Marks) -> Result<(), Error> {
        for (day, marks) in marks.days() {
            self.note_day(log, day, marks).await?;
        }
        Ok(())
    }

    async fn note_day(&self, log: &SourceName, day: u64, marks: &BTreeSet<Mark>) -> Result<(), Error> {
        let id = id(log);
        let change = |document: Result<Document, Error>| {
            let mut known = decode(&document?.content).unwrap_or_default();
            let index = known.iter().position(|(other, _)| *other == id).unwrap_or(known.len());
            if index == known.len() {
                known.push((id, BTreeSet::new()));
            }
            let before = known[index].1.clone();
            marks.iter().for_each(|mark| insert_smallest(&mut known[index].1, *mark));
            let first = known.len().saturating_sub(MAX_LOGS);
            Ok(((), (known[index].1 != before).then(|| encode(&known[first..]))))
        };
        if change_document(&*self.store, &self.document(day), change).await?.is_none() {
            tracing::warn!(source = %log, "too many concurrent changes to the marks of a day; some marks are missing");
        }
        Ok(())
    }

    async fn read(&self, day: u64) -> Result<KnownLogs, Error> {
        let document = self.store.read(&self.document(day)).await?;
        Ok(decode(&document.content).unwrap_or_default())
    }

    fn document(&self, day: u64) -> String {
        format!("log:{}:{day}", self.site)
    }
}

fn id(log: &SourceName) -> LogId {
    *KEY.visitor(&[b"log", log.as_bytes()]).as_bytes()
}

fn encode(known: &[(LogId, BTreeSet<Mark>)]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    for (log, marks) in known {
        bytes.extend_from_slice(log);
        bytes.extend_from_slice(&u16::try_from(marks.len()).unwrap_or(u16::MAX).to_le_bytes());
        marks.iter().for_each(|mark| bytes.extend_from_slice(&mark.to_bytes()));
    }
    bytes
}

/// Decodes the output of [`encode`]. Returns `None` if this is not possible.
fn decode(bytes: &[u8]) -> Option<KnownLogs> {
    let (&VERSION, mut rest) = bytes.split_first()? else { return None };
    let mut known = KnownLogs::new();
    while !rest.is_empty() {
        let (log, after) = rest.split_first_chunk::<16>()?;
        let (count, after) = after.split_first_chunk::<2>()?;
        let (marks, after) = after.split_at_checked(8 * usize::from(u16::from_le_bytes(*count)))?;
        let (marks, _) = marks.as_chunks::<8>();
        known.push((*log, marks.iter().map(|mark| Mark::of_bytes(*mark)).collect()));
        rest = after;
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use counter_core::MemoryStore;

    use super::*;
    use crate::Format;

    /// Returns lines for some seconds of a day, starting at the second `from`.
    fn lines(from: u64, seconds: std::ops::Range<u64>, path: &str) -> String {
        let line = |second: u64| {
            let at = from + second;
            let (hour, minute, second) = (at / 3600, at / 60 % 60, at % 60);
            format!(
                "192.0.2.1 - - [01/May/2026:{hour:02}:{minute:02}:{second:02} +0000] \"GET {path}?{at} HTTP/1.1\" 200 7\n"
            )
        };
        seconds.map(line).collect()
    }

    async fn admit(index: &LogIndex, log: &str, text: &str, counted: usize) -> Result<(), String> {
        let name = log.parse().expect("a name");
        let (parser, lines) = (Parser::new(Format::common()), Lines::new(text.as_bytes(), 0));
        let admitted = index.admit(&name, counted as u64, parser, lines).await;
        admitted.map_err(|error| format!("{error:?}"))
    }

    #[tokio::test]
    async fn logs_with_lines_of_a_different_log_are_rejected() {
        for day in [300, 50_000] {
            let store = MemoryStore::new();
            let index = LogIndex::new(store.clone(), "web-1");
            let part = |seconds| lines(0, seconds, "/");
            let (first, second) = (part(0..day / 2), part(day / 2..day));
            assert_eq!(admit(&index, "first", &first, 0).await, Ok(()));
            assert_eq!(admit(&index, "second", &second, 0).await, Ok(()));
            // The log has grown, and has been counted up to the previous end.
            for _ in 0..2 {
                assert_eq!(admit(&index, "second", &part(day / 2..day + 50), second.len()).await, Ok(()));
            }
            for text in [part(day / 4..day / 2), part(day / 10..day), part(0..day)] {
                let rejected = admit(&index, "another", &text, 0).await.expect_err("it was counted");
                assert!(rejected.starts_with("Counted"), "{rejected}");
            }
            // Both logs were merged.
            let rejected =
                admit(&index, "first", &part(0..day), first.len()).await.expect_err("it was counted");
            assert!(rejected.starts_with("Counted"), "{rejected}");
            assert_eq!(admit(&LogIndex::new(store, "web-2"), "another", &part(0..day), 0).await, Ok(()));
        }
    }

    #[tokio::test]
    async fn logs_without_common_lines_are_admitted_under_a_new_name() {
        let index = LogIndex::new(MemoryStore::new(), "web-1");
        let (one, shared) = (lines(0, 0..500, "/"), lines(0, 0..1, "/"));
        assert_eq!(admit(&index, "one", &one, 0).await, Ok(()));
        // Logs of the same period that only share a second.
        let other = shared + &lines(0, 1..500, "/other");
        assert_eq!(admit(&index, "other", &other, 0).await, Ok(()));
        let rejected = admit(&index, "one", &other, one.len()).await.expect_err("it is another log");
        assert_eq!(rejected, "SameBeginning");
        // An older copy of the log.
        assert_eq!(admit(&index, "one", &lines(0, 0..200, "/"), one.len()).await, Ok(()));
    }

    /// Returns one line per second for the same request.
    fn checks(seconds: std::ops::Range<u64>) -> Vec<String> {
        let line = |second: u64| {
            let time = format!("{:02}:{:02}", second / 60 % 60, second % 60);
            format!("192.0.2.1 - - [01/May/2026:00:{time} +0000] \"GET /health HTTP/1.1\" 200 7\n")
        };
        seconds.map(line).collect()
    }

    #[tokio::test]
    async fn logs_that_share_few_requests_are_admitted() {
        let alternating = |checks: Vec<String>, path| {
            let rest = checks.iter().zip(0..).map(|(check, n)| lines(0, n..n + 1, path) + check);
            rest.collect::<String>()
        };
        for (one, other) in [
            // Two lines of a small log are also in a large log.
            (checks(100..102).concat(), alternating(checks(0..300), "/")),
            // Each second, both servers get the same health check.
            (checks(0..300).concat(), alternating(checks(0..300), "/")),
            (alternating(checks(0..100), "/one"), alternating(checks(0..100), "/other")),
        ] {
            let index = LogIndex::new(MemoryStore::new(), "web");
            assert_eq!(admit(&index, "one", &one, 0).await, Ok(()));
            assert_eq!(admit(&index, "other", &other, 0).await, Ok(()));
        }
    }

    #[tokio::test]
    async fn small_parts_of_a_log_are_rejected() {
        for (known, text) in [
            (checks(0..300).concat(), checks(100..102).concat()),
            (checks(100..102).concat(), checks(100..300).concat()),
            (lines(0, 100..102, "/"), lines(0, 0..300, "/")),
            // An excerpt of 2 % of a large log.
            (lines(0, 0..80_000, "/"), lines(0, 30_000..31_600, "/")),
        ] {
            let index = LogIndex::new(MemoryStore::new(), "web");
            assert_eq!(admit(&index, "known", &known, 0).await, Ok(()));
            let rejected = admit(&index, "another", &text, 0).await.expect_err("it was counted");
            assert!(rejected.starts_with("Counted"), "{rejected}");
        }
    }

    #[tokio::test]
    async fn a_part_that_begins_and_ends_within_a_second_is_rejected() {
        let second = |second: u64| {
            let line = |request| checks(second..second + 1).concat().replace("/health", request);
            ["/health", "/ready", "/metrics"].map(line)
        };
        let log: Vec<_> = (0..300).flat_map(second).collect();
        let (whole, part) = (log.concat(), log[301..599].concat());
        for (known, another) in [(&whole, &part), (&part, &whole)] {
            let index = LogIndex::new(MemoryStore::new(), "web");
            assert_eq!(admit(&index, "known", known, 0).await, Ok(()));
            let rejected = admit(&index, "another", another, 0).await.expect_err("it was counted");
            assert!(rejected.starts_with("Counted"), "{rejected}");
        }
    }

    #[test]
    fn marks_do_not_depend_on_the_client() {
        let mark = |client: &str| {
            let text = format!("{client} [01/May/2026:00:00:01 +0000] \"GET / HTTP/1.1\" 200 7\n");
            let mut parser = Parser::new(Format::common());
            Mark::of(&parser.parse(text.as_bytes()).expect("a line").expect("a request"))
        };
        assert_eq!(mark("192.0.2.1 - ann"), mark("2001:db8::1 - -"));
    }

    #[test]
    fn documents_round_trip_and_invalid_documents_are_rejected() {
        let marks = (0..300).map(|n| Mark::of_bytes(u64::to_le_bytes(n << 40))).collect::<BTreeSet<_>>();
        let known = vec![([1; 16], marks), ([2; 16], BTreeSet::new())];
        let bytes = encode(&known);
        assert_eq!(decode(&bytes), Some(known));
        for wrong in [&bytes[..bytes.len() - 1], &[2], &[]] {
            assert_eq!(decode(wrong), None);
        }
    }
}
