use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use counter_core::Error;
use counter_core::source::{Commit, Source, SourceName, Sources};
use counter_core::visitor::VisitorKey;

use crate::counter::{Decision, LogCounter};
use crate::format::zone::LogTimeZone;
use crate::format::{Format, Parser, is_directive};
use crate::index::marks::{Mark, Marks};
use crate::keys::Keys;
use crate::lines::Lines;
use crate::report::{Reason, Report};

/// Counts logs into [sources](counter_core::source). Lines count exactly once, even if the log is read again.
///
/// ```
/// use counter_core::{Counters, MemoryStore};
/// use counter_layer::AccessCounterLayer;
/// use counter_log::{Format, Import, Lines, LogCounter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let layer = AccessCounterLayer::new(counters.recorder());
/// # let log = "192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 200 7\nbroken\n";
///
/// let mut import = Import::new(counters.sources(), Format::common(), LogCounter::new(&layer));
/// for read in 1..=2 {
///     let open = |position| Ok(Some(Lines::new(&log.as_bytes()[position as usize..], position)));
///     let position = import.count("web-1".parse()?, open).await?;
///     assert_eq!(position, Some(log.len() as u64));
/// }
/// // The second read does not find new lines.
/// let [status] = &counters.sources().statuses()[..] else { unreachable!() };
/// assert_eq!((status.ledger.records.read, import.report().malformed()), (2, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Import {
    sources: Sources,
    parser: Parser,
    /// True if we need to read lines that are already counted, because these may contain directives.
    has_directives: bool,
    /// The source of the directives in the parser, and the position up to which these have been read.
    directives_of: Option<(SourceName, u64)>,
    counter: LogCounter,
    keys: Keys,
    report: Report,
    /// `None` if lines are not marked.
    marks: Option<Marks>,
}

/// The reason why an import stopped. This does not lose lines: the next import continues at the stored
/// position.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The log can't be read.
    Log(io::Error),
    /// The store can't be read, or rejects the counts.
    Store(Error),
}

/// The maximum time between commits.
const MAX_COMMIT_INTERVAL: Duration = Duration::from_secs(1);

impl Import {
    /// Creates an import for logs in this format.
    #[must_use]
    pub fn new(sources: Sources, format: Format, counter: LogCounter) -> Self {
        let (has_directives, parser) = (format.has_directives(), Parser::new(format));
        Self {
            sources,
            parser,
            has_directives,
            directives_of: None,
            counter,
            keys: Keys::default(),
            report: Report::default(),
            marks: Some(Marks::default()),
        }
    }

    /// Returns the marks of the lines read since the previous call. You should [note](crate::LogIndex::note)
    /// them under the source name.
    pub fn take_marks(&mut self) -> Marks {
        self.marks.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Does not mark lines, which takes less time. Use this for a log that does not grow, because
    /// [`LogIndex::admit`](crate::LogIndex::admit) notes the marks of all lines.
    #[must_use]
    pub fn without_marks(mut self) -> Self {
        self.marks = None;
        self
    }

    /// Sets the time zone of times without a time zone, instead of UTC.
    #[must_use]
    pub fn time_zone(mut self, zone: LogTimeZone) -> Self {
        self.parser = self.parser.time_zone(zone);
        self
    }

    /// Returns what was read.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// Counts the new lines of a source, and returns the position at the end.
    ///
    /// `open` should return the lines starting at a position. It will be called again if the stored position
    /// has changed in the meantime, because a different import was faster or a failover lost counts. If
    /// `open` returns `None`, this also returns `None`.
    ///
    /// This blocks the thread while reading.
    ///
    /// # Errors
    /// Fails if the log can't be read, or if the store does not respond.
    ///
    /// # Cancel safety
    /// If this is cancelled, the next call will count all lines that have not been committed.
    pub async fn count<R: Read>(
        &mut self,
        name: SourceName,
        open: impl FnMut(u64) -> io::Result<Option<Lines<R>>>,
    ) -> Result<Option<u64>, ImportError> {
        let mut source = self.sources.open(name).await.map_err(ImportError::Store)?;
        self.count_into(&mut source, open).await
    }

    /// Counts new lines into a source that stays open. Otherwise, this is the same as [`count`](Self::count).
    /// Use this to follow a log.
    ///
    /// If the log does not grow, you should call [`Source::check`] every few seconds. If it reports that the
    /// source has moved, the store has returned to an older state, e.g. after a failover. In this case, call
    /// this method again to count the lines from this position.
    ///
    /// # Errors
    /// Fails under the same conditions as [`count`](Self::count).
    ///
    /// # Cancel safety
    /// The same as for [`count`](Self::count).
    pub async fn count_into<R: Read>(
        &mut self,
        source: &mut Source,
        mut open: impl FnMut(u64) -> io::Result<Option<Lines<R>>>,
    ) -> Result<Option<u64>, ImportError> {
        // An earlier call might not have sent everything.
        _ = source.commit().await.map_err(ImportError::Store)?;
        loop {
            let position = source.position();
            let has_read = self.directives_of.take() == Some((source.name().clone(), position));
            let from = if self.has_directives && !has_read { 0 } else { position };
            let Some(mut lines) = open(from).map_err(ImportError::Log)? else { return Ok(None) };
            let counted = self.read(source, &mut lines).await;
            // Even if reading failed, we still count the lines before the error.
            match (source.close().await.map_err(ImportError::Store)?, counted) {
                (Commit::Moved, _) | (_, Ok(Commit::Moved)) => {}
                (Commit::Done, Ok(Commit::Done)) => {
                    self.directives_of = Some((source.name().clone(), source.position()));
                    return Ok(Some(source.position()));
                }
                (Commit::Done, Err(error)) => return Err(error),
            }
        }
    }

    async fn read<R: Read>(
        &mut self,
        source: &mut Source,
        lines: &mut Lines<R>,
    ) -> Result<Commit, ImportError> {
        let (position, may_be_cut) = (source.position(), lines.may_be_cut());
        let mut committed = Instant::now();
        while let Some(line) = lines.next().map_err(ImportError::Log)? {
            let (range, number) = (line.range, line.number);
            if range.start < position {
                if is_directive(line.text) {
                    _ = self.parser.parse(line.text);
                }
                continue;
            }
            let is_cut = may_be_cut && !line.text.ends_with(b"\n");
            let decided = match self.parser.parse(line.text) {
                Ok(None) => continue,
                Err(reason) => Err(reason),
                Ok(Some(line)) => {
                    let key = match self.counter.needs_key() {
                        true => self.keys.of(&self.sources, line.at).await.map_err(ImportError::Store)?,
                        false => VisitorKey::new([0; 16]),
                    };
                    if let Some(marks) = &mut self.marks {
                        let (day, mark) = Mark::of(&line);
                        marks.insert(day, mark);
                    }
                    match self.counter.decide(&line, key) {
                        Decision::Malformed(reason) => Err(reason),
                        Decision::Counted { hits, measured, agent } => {
                            self.report.count(&line, agent);
                            Ok(source.record_measured(range.clone(), line.at, hits, measured))
                        }
                        Decision::Skipped(skip) => {
                            self.report.leave_out(Reason::Skipped(skip), number);
                            source.skip(range.clone(), skip);
                            Ok(false)
                        }
                    }
                }
            };
            let is_full = match decided {
                Ok(is_full) => is_full,
                // The rest of the line may still arrive.
                Err(_) if is_cut => break,
                Err(reason) => {
                    self.report.leave_out(Reason::Malformed(reason), number);
                    source.malformed(range);
                    false
                }
            };
            if is_full || committed.elapsed() >= MAX_COMMIT_INTERVAL {
                if source.commit().await.map_err(ImportError::Store)? == Commit::Moved {
                    return Ok(Commit::Moved);
                }
                committed = Instant::now();
            }
        }
        Ok(Commit::Done)
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Log(_) => "cannot read the log",
            Self::Store(_) => "the store cannot count the log",
        })
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Self::Log(error) => error,
            Self::Store(error) => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use counter_core::{Counters, MemoryStore};
    use counter_layer::AccessCounterLayer;

    use super::*;
    use crate::LogFile;

    #[tokio::test]
    async fn directives_are_only_read_once_while_a_log_grows() {
        let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
        let counter = LogCounter::new(&AccessCounterLayer::new(counters.recorder()));
        let mut import = Import::new(counters.sources(), Format::w3c(), counter);
        let mut log = "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n".to_owned();
        let mut begun = Vec::new();
        for name in ["one", "one", "one", "another", "one"] {
            log += "2026-05-01 00:00:01 192.0.2.1 GET / 200\n";
            let open = |position| {
                begun.push(position > 0);
                Ok(Some(Lines::new(&log.as_bytes()[usize::try_from(position).expect("short")..], position)))
            };
            let end = import.count(name.parse().expect("a name"), open).await.expect("memory takes all");
            assert_eq!(end, Some(log.len() as u64));
        }
        assert_eq!(begun, [false, true, true, false, false]);
        assert_eq!(import.report().malformed(), 0);
        let read =
            counters.sources().statuses().iter().map(|status| status.ledger.records.recorded).sum::<u64>();
        assert_eq!(read, 5 + 4);
    }

    #[tokio::test]
    async fn imports_are_send_and_missing_logs_are_not_an_error() {
        let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
        let counter = LogCounter::new(&AccessCounterLayer::new(counters.recorder()));
        let mut import = Import::new(counters.sources(), Format::common(), counter);
        let import = tokio::spawn(async move {
            let name = "a log".parse().expect("a name");
            import.count(name, |_| Ok(None::<Lines<LogFile>>)).await.map_err(|error| error.to_string())
        });
        assert_eq!(import.await.expect("no panic"), Ok(None));
    }
}
