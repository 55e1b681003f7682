//! An index of the logs with the same name, based on a sample of lines.

pub(super) mod marks;
pub(super) mod error;
mod day;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use counter_core::document::{Document, DocumentStore};
use counter_core::internal::change_document;
use counter_core::source::SourceName;
use counter_core::visitor::VisitorKey;
use counter_core::{Error, ErrorKind};
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
/// The marks of a day are stored in a document, which takes up to 2 KB per log and is never deleted. A day can
/// have up to 512 logs with the same name. Further logs are rejected, because they could not be recognized.
///
/// Logs can be admitted at the same time, by different processes. If two of them have common lines, only the
/// first is admitted.
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

/// Maximum number of logs per day, e.g. a log every three minutes. A document takes up to 1 MB.
const MAX_LOGS: usize = 512;

/// Number of lines after which to yield to other tasks.
const LINES_BEFORE_YIELD: u64 = 10_000;

/// The version of the document format. A number must never be used again for a different format.
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
    /// Fails if the log is rejected, or if the log or the store can't be read. If the error is
    /// [`Concurrent`](LogIndexError::Concurrent), try again.
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
        for (number, day) in &days {
            day.check(log_id, *number)?;
        }
        self.note_compared(log_id, &marks, &days).await
    }

    /// Stores the marks of lines that have been or are about to be counted.
    ///
    /// # Errors
    /// Fails if the store can't be read or written, or if a day already has 512 other logs. You can retry with
    /// the same marks.
    pub async fn note(&self, log: &SourceName, marks: &Marks) -> Result<(), Error> {
        for (day, marks) in marks.days() {
            match self.note_day(id(log), day, marks, None).await {
                Ok(_) => {}
                Err(LogIndexError::Store(error)) => return Err(error),
                Err(refused) => {
                    let kind = ErrorKind::TooManyItems { max: MAX_LOGS as u64 };
                    return Err(Error::new(kind).caused_by(refused));
                }
            }
        }
        Ok(())
    }

    /// Stores the marks of a log, unless other logs with the same lines have been noted since the comparison.
    /// In this case, nothing is stored.
    async fn note_compared(
        &self,
        log: LogId,
        marks: &Marks,
        compared: &BTreeMap<u64, Day>,
    ) -> Result<(), LogIndexError> {
        let mut added = Vec::new();
        for (day, marks) in marks.days() {
            match self.note_day(log, day, marks, compared.get(&day)).await {
                Ok(new) => added.push((day, new)),
                Err(refused) => {
                    for (day, marks) in added {
                        self.remove(log, day, &marks).await.map_err(LogIndexError::Store)?;
                    }
                    return Err(refused);
                }
            }
        }
        Ok(())
    }

    /// Stores marks, and returns those that were not stored before. If the log was `compared`, this fails if
    /// the marks of another log have come to include some of them.
    async fn note_day(
        &self,
        log: LogId,
        day: u64,
        marks: &BTreeSet<Mark>,
        compared: Option<&Day>,
    ) -> Result<BTreeSet<Mark>, LogIndexError> {
        let name = self.document(day);
        let change = |document: Result<Document, Error>| {
            let mut known = decode(&document?.content, &name)?;
            let is_new = |(other, others): &(LogId, BTreeSet<Mark>), compared: &Day| {
                *other != log && others.intersection(marks).any(|mark| !compared.has_compared(*other, *mark))
            };
            if compared.is_some_and(|compared| known.iter().any(|other| is_new(other, compared))) {
                return Ok((Err(LogIndexError::Concurrent), None));
            }
            let index = known.iter().position(|(other, _)| *other == log).unwrap_or(known.len());
            if index == known.len() {
                if index >= MAX_LOGS {
                    return Ok((Err(LogIndexError::TooManyLogs { max: MAX_LOGS }), None));
                }
                known.push((log, BTreeSet::new()));
            }
            let before = known[index].1.clone();
            marks.iter().for_each(|mark| insert_smallest(&mut known[index].1, *mark));
            let new: BTreeSet<_> = known[index].1.difference(&before).copied().collect();
            let content = (!new.is_empty()).then(|| encode(&known));
            Ok((Ok(new), content))
        };
        let changed = change_document(&*self.store, &name, change).await.map_err(LogIndexError::Store)?;
        changed.unwrap_or_else(|| {
            let conflicts = "too many concurrent changes to the marks of a day";
            Err(LogIndexError::Store(Error::new(ErrorKind::Unavailable).caused_by(conflicts)))
        })
    }

    /// Removes the marks of a log that was not admitted.
    async fn remove(&self, log: LogId, day: u64, marks: &BTreeSet<Mark>) -> Result<(), Error> {
        let name = self.document(day);
        let change = |document: Result<Document, Error>| {
            let mut known = decode(&document?.content, &name)?;
            for (_, known) in known.iter_mut().filter(|(other, _)| *other == log) {
                known.retain(|mark| !marks.contains(mark));
            }
            known.retain(|(_, marks)| !marks.is_empty());
            Ok(((), Some(encode(&known))))
        };
        let changed = change_document(&*self.store, &name, change).await?;
        changed.ok_or_else(|| {
            Error::new(ErrorKind::Unavailable).caused_by("too many concurrent changes to the marks of a day")
        })
    }

    async fn read(&self, day: u64) -> Result<KnownLogs, Error> {
        let name = self.document(day);
        decode(&self.store.read(&name).await?.content, &name)
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

/// Decodes the output of [`encode`]. A document that does not exist has no logs.
///
/// # Errors
/// Fails if the document is damaged, or from a newer version. It must not be taken for empty, because the logs
/// would count again.
fn decode(bytes: &[u8], name: &str) -> Result<KnownLogs, Error> {
    let malformed =
        |reason: String| Error::new(ErrorKind::Malformed { key: name.to_owned() }).caused_by(reason);
    match bytes.split_first() {
        None => Ok(KnownLogs::new()),
        Some((&VERSION, rest)) => decode_logs(rest).ok_or_else(|| {
            malformed("the document is damaged; restore it from a backup, or remove it to forget the logs of the day".to_owned())
        }),
        Some((version, _)) if *version > VERSION => Err(malformed(format!(
            "the document is newer than this program: it has version {version}, but this program only supports version \
             {VERSION}; update this program"
        ))),
        Some((version, _)) => Err(malformed(format!(
            "the document is older than this program: it has version {version}, but version {VERSION} is required"
        ))),
    }
}

fn decode_logs(mut rest: &[u8]) -> Option<KnownLogs> {
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
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

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
        assert_eq!(decode(&bytes, "a").ok(), Some(known));
        assert_eq!(decode(&[], "a").ok(), Some(KnownLogs::new()));
        for (wrong, reason) in [
            (&bytes[..bytes.len() - 1], "the document is damaged"),
            (&[VERSION + 1], "the document is newer than this program"),
            (&[0], "the document is older than this program"),
        ] {
            let error = format!("{:?}", decode(wrong, "a").expect_err(reason));
            assert!(error.contains(reason), "{error}");
        }
    }

    #[tokio::test]
    async fn a_document_that_cannot_be_read_is_not_overwritten() {
        let (store, name) = (MemoryStore::new(), "log".parse().expect("a name"));
        let index = LogIndex::new(store.clone(), "web");
        let log = lines(0, 0..300, "/");
        assert_eq!(admit(&index, "log", &log, 0).await, Ok(()));
        let document = index.document(20_574);
        let good = DocumentStore::read(&store, &document).await.expect("memory");
        assert!(!good.content.is_empty(), "the logs are of this day");
        let newer = [&[VERSION + 1], &good.content[1..]].concat();
        let mut marks = Marks::default();
        marks.insert(20_574, Mark::of_bytes([1; 8]));
        for wrong in [&good.content[..100], &newer] {
            let seen = DocumentStore::read(&store, &document).await.expect("memory");
            let replaced = DocumentStore::replace(&store, &document, seen.version, wrong).await;
            replaced.expect("memory").expect("nothing else writes");
            let refused = admit(&index, "another", &log, 0).await.expect_err("it is unreadable");
            assert!(refused.starts_with("Store"), "{refused}");
            assert!(index.note(&name, &marks).await.is_err());
            assert_eq!(DocumentStore::read(&store, &document).await.expect("memory").content, wrong);
        }
    }

    /// A log that admits another log when it is read for the first time.
    struct Meanwhile<'a>(LogIndex, Option<&'a str>, &'a [u8]);

    impl Read for Meanwhile<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            // Only after the first part has been compared.
            if self.2.len() < 10_000
                && let Some(other) = self.1.take()
            {
                let mut admitted = pin!(admit(&self.0, "other", other, 0));
                let mut context = Context::from_waker(Waker::noop());
                let admitted = loop {
                    // Memory does not wait, so this just yields.
                    if let Poll::Ready(admitted) = admitted.as_mut().poll(&mut context) {
                        break admitted;
                    }
                };
                assert_eq!(admitted, Ok(()));
            }
            self.2.read(buffer)
        }
    }

    #[tokio::test]
    async fn only_one_of_two_logs_is_admitted_at_the_same_time() {
        let day = |day: u32, text: &str| text.replace("01/May", &format!("{day:02}/May"));
        let log = lines(0, 0..20_000, "/");
        let log = day(1, &log) + &day(2, &log);
        let part = day(2, &lines(0, 5_000..8_000, "/"));
        let unrelated = lines(0, 0..8_000, "/other");
        for (other, is_admitted) in [(&log, false), (&part, false), (&unrelated, true)] {
            let index = LogIndex::new(MemoryStore::new(), "web");
            let reader = Meanwhile(index.clone(), Some(other), log.as_bytes());
            let parser = Parser::new(Format::common());
            let name = "log".parse().expect("a name");
            let admitted = index.admit(&name, 0, parser, Lines::new(reader, 0)).await;
            assert_eq!(admitted.is_ok(), is_admitted, "{admitted:?}");
            assert!(is_admitted || matches!(admitted, Err(LogIndexError::Concurrent)), "{admitted:?}");
            if is_admitted {
                continue;
            }
            let again = admit(&index, "log", &log, 0).await.expect_err("it was counted");
            assert!(again.starts_with("Counted"), "{again}");
            // The days that are not part of the other log are not taken for counted.
            let rest = day(1, &lines(0, 0..20_000, "/"));
            assert_eq!(admit(&index, "rest", &rest, 0).await.is_ok(), other == &part);
        }
    }

    #[tokio::test]
    async fn no_log_of_a_day_is_forgotten() {
        let index = LogIndex::new(MemoryStore::new(), "web");
        let part = |n: usize| lines(0, 10 * n as u64..10 * n as u64 + 10, "/");
        for n in 0..MAX_LOGS {
            assert_eq!(admit(&index, &format!("log {n}"), &part(n), 0).await, Ok(()));
        }
        let rejected = admit(&index, "another", &part(0), 0).await.expect_err("it was counted");
        assert!(rejected.starts_with("Counted"), "{rejected}");
        let rejected = admit(&index, "another", &part(MAX_LOGS), 0).await.expect_err("there are too many");
        assert_eq!(rejected, format!("TooManyLogs {{ max: {MAX_LOGS} }}"));
        assert_eq!(admit(&index, "log 0", &part(0), 0).await, Ok(()), "a log that is known");
    }
}
