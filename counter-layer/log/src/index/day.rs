//! Compares the lines of a day with the marks of other logs.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use counter_core::Timestamp;

use super::error::LogIndexError;
use super::marks::{MAX_MARKS, Mark, within};
use crate::line::Line;

/// A log id, i.e. the hash of the source name.
pub(super) type LogId = [u8; 16];

/// The marks of a day by log, in insertion order.
pub(super) type KnownLogs = Vec<(LogId, BTreeSet<Mark>)>;

/// The state of the comparison for a day.
#[derive(Default)]
pub(super) struct Day {
    known: Vec<KnownLog>,
    /// The time range of all lines, in seconds of the day.
    all: Option<(u64, u64)>,
    /// The time range of the new lines, in seconds of the day.
    new: Option<(u64, u64)>,
}

/// The marks of a known log, compared with the lines of another log.
struct KnownLog {
    id: LogId,
    marks: BTreeSet<Mark>,
    /// The marks that the other log contains.
    found: BTreeSet<Mark>,
    /// Hashes of the requests that both logs contain, up to [`MIN_REQUESTS`].
    requests: BTreeSet<u64>,
    /// True if the other log contains a line in this period that would be marked if it was in this log.
    has_others: bool,
    /// The [complete] seconds of the marks, in seconds of the day.
    period: RangeInclusive<u64>,
}

/// With this number of different requests, common lines are evidence, even if each log has other lines.
const MIN_REQUESTS: usize = 4;

const DAY: u64 = 86_400;

impl Day {
    pub(super) fn new(known: KnownLogs) -> Self {
        Self { known: known.into_iter().map(KnownLog::new).collect(), ..Self::default() }
    }

    /// Returns `true` if the lines were compared with this mark of another log.
    pub(super) fn has_compared(&self, id: LogId, mark: Mark) -> bool {
        self.known.iter().any(|known| known.id == id && known.marks.contains(&mark))
    }

    /// Compares a line with the marks of this log. If the line is new, this also compares other logs.
    pub(super) fn compare(&mut self, log_id: LogId, line: &Line<'_>, mark: Mark, is_new: bool) {
        let extend = |range: &mut Option<(u64, u64)>| {
            let (first, last) = range.unwrap_or((mark.second(), mark.second()));
            *range = Some((first.min(mark.second()), last.max(mark.second())));
        };
        extend(&mut self.all);
        if is_new {
            extend(&mut self.new);
        }
        for known in &mut self.known {
            if is_new || known.id == log_id {
                known.compare(line, mark);
            }
        }
    }

    pub(super) fn check(&self, log_id: LogId, day: u64) -> Result<(), LogIndexError> {
        for known in &self.known {
            let KnownLog { id, marks, found, .. } = known;
            if *id == log_id {
                // The final second may be incomplete, because the file was copied while it was being written.
                let Some((first, last)) = self.all.filter(|(first, last)| first < last) else { continue };
                let expected = within(marks, &(first..=last - 1));
                let found_marks = within(found, &(first..=last - 1));
                if (expected - found_marks) * 4 > expected {
                    return Err(LogIndexError::SameBeginning);
                }
            } else if let Some((first, last)) = self.new {
                let seconds: BTreeSet<_> = found.iter().map(|mark| mark.second()).collect();
                if seconds.len() > 1 && known.is_part_of(first, last) {
                    let at = |second: Option<&u64>| {
                        Timestamp::from_unix(day * DAY + second.copied().unwrap_or_default())
                    };
                    return Err(LogIndexError::Counted { from: at(seconds.first()), to: at(seconds.last()) });
                }
            }
        }
        Ok(())
    }
}

impl KnownLog {
    fn new((id, marks): (LogId, BTreeSet<Mark>)) -> Self {
        let seconds = || marks.iter().map(|mark| mark.second());
        let period = complete(seconds().min().unwrap_or_default(), seconds().max().unwrap_or_default());
        Self { id, marks, found: BTreeSet::new(), requests: BTreeSet::new(), has_others: false, period }
    }

    fn compare(&mut self, line: &Line<'_>, mark: Mark) {
        if self.marks.contains(&mark) {
            self.found.insert(mark);
            if self.requests.len() < MIN_REQUESTS {
                self.requests.insert(Mark::request_of(line));
            }
        } else if self.period.contains(&mark.second()) {
            // A full set only contains the smallest marks.
            self.has_others |= self.marks.len() < MAX_MARKS || Some(&mark) < self.marks.last();
        }
    }

    /// Returns whether the other log, with new lines between these seconds, contains this log.
    fn is_part_of(&self, first: u64, last: u64) -> bool {
        if self.requests.len() < MIN_REQUESTS {
            let seconds = complete(first, last);
            return within(&self.found, &seconds) == within(&self.marks, &seconds) && !self.has_others;
        }
        2 * self.found.len() >= within(&self.marks, &(first..=last))
    }
}

/// Returns the seconds of a log that are certainly complete. A log may begin and end within a second.
fn complete(first: u64, last: u64) -> RangeInclusive<u64> {
    match last - first {
        0 | 1 => first..=first,
        _ => first + 1..=last - 1,
    }
}
