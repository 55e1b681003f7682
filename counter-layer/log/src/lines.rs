use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

use crate::format::MAX_LINE;

/// Reads lines with positions from a file, standard input, or any other reader.
///
/// This only returns complete lines. An incomplete line will be returned when the rest arrives, or if the log
/// is [finished](Self::finished) or [may be](Self::maybe_finished). Lines of more than [`MAX_LINE`] bytes are truncated.
///
/// ```
/// use counter_log::Lines;
///
/// let mut lines = Lines::new(&b"one\ntwo\nthr"[..], 100).finished();
/// assert_eq!(lines.next()?.map(|line| (line.range, line.text)), Some((100..104, &b"one\n"[..])));
/// assert_eq!(lines.next()?.map(|line| (line.range, line.text)), Some((104..108, &b"two\n"[..])));
/// assert_eq!(lines.next()?.map(|line| (line.range, line.text)), Some((108..111, &b"thr"[..])));
/// assert!(lines.next()?.is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Data that has been read, but not returned yet.
    unread: Range<usize>,
    /// The position of the first unread byte.
    position: u64,
    /// The number of bytes removed from a line that is too long.
    cut: u64,
    /// The number of the latest line, if it is known.
    number: Option<u64>,
    end: End,
}

/// What to do with an incomplete line at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Wait,
    ReturnIfValid,
    Return,
}

/// A log line, with the byte range.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine<'a> {
    /// The position of the line in the log, including the line ending.
    pub range: Range<u64>,
    /// The number of the line in the log, counted from 1, if it is known.
    pub number: Option<u64>,
    /// The line with the line ending, or the start of a line that is [too long](crate::Malformed::TooLong).
    pub text: &'a [u8],
}

/// This must be enough for the longest line, the line ending, and an additional byte to detect longer lines.
const BUFFER_BYTES: usize = 2 * MAX_LINE;

impl<R: Read> Lines<R> {
    /// Creates a reader that starts at this position of the log.
    pub fn new(reader: R, position: u64) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        let number = (position == 0).then_some(0);
        Self { reader, buffer, unread: 0..0, position, cut: 0, number, end: End::Wait }
    }

    /// Sets the number of lines before the start of this reader. By default, it is only known at the start of a log.
    #[must_use]
    pub fn after(mut self, lines: u64) -> Self {
        self.number = Some(lines);
        self
    }

    /// Declares that the log will not grow, so that an incomplete line at the end counts.
    #[must_use]
    pub fn finished(mut self) -> Self {
        self.end = End::Return;
        self
    }

    /// Declares that the log may not grow, e.g. because it was rotated. An [`Import`](crate::Import) counts an incomplete
    /// line at the end if it is a valid request, and otherwise leaves it to the next import.
    #[must_use]
    pub fn maybe_finished(mut self) -> Self {
        self.end = End::ReturnIfValid;
        self
    }

    /// Returns `true` if the last line may be incomplete.
    pub(crate) fn may_be_cut(&self) -> bool {
        self.end == End::ReturnIfValid
    }

    /// Returns the position after the latest line that was returned.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Reads the next line, or returns `None` if a complete line is not available yet.
    ///
    /// # Errors
    /// Fails if the reader fails. You can retry.
    #[expect(clippy::should_implement_trait, reason = "a line borrows from the buffer")]
    pub fn next(&mut self) -> io::Result<Option<LogLine<'_>>> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(end) = memchr::memchr(b'\n', &unread[searched..]) {
                let length = searched + end + 1;
                return Ok(Some(self.take(length)));
            }
            searched = unread.len();
            // Keep the start, so that the line is still recognized as too long.
            if searched > MAX_LINE + 1 {
                self.cut += (searched - MAX_LINE - 1) as u64;
                self.unread.end = self.unread.start + MAX_LINE + 1;
                searched = MAX_LINE + 1;
            }
            if !self.fill()? {
                let rest = if self.end == End::Wait { 0 } else { self.unread.len() };
                return Ok((rest > 0).then(|| self.take(rest)));
            }
        }
    }

    /// Returns the reader. It might already be past the latest line that was returned.
    pub const fn get_ref(&self) -> &R {
        &self.reader
    }

    fn take(&mut self, length: usize) -> LogLine<'_> {
        let start = self.unread.start;
        self.unread.start += length;
        let from = self.position;
        self.position += length as u64 + std::mem::take(&mut self.cut);
        self.number = self.number.map(|number| number + 1);
        LogLine { range: from..self.position, number: self.number, text: &self.buffer[start..start + length] }
    }

    /// Reads more data. Returns `false` if none is available yet.
    fn fill(&mut self) -> io::Result<bool> {
        if self.unread.start > 0 {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        loop {
            match self.reader.read(&mut self.buffer[self.unread.end..]) {
                Ok(read) => {
                    self.unread.end += read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<R> fmt::Debug for Lines<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("position", &self.position).finish_non_exhaustive()
    }
}

impl fmt::Debug for LogLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLine").field("range", &self.range).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// Returns one piece at a time, with an end of file in between.
    struct Pieces(VecDeque<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(mut piece) = self.0.pop_front() else { return Ok(0) };
            let length = piece.len().min(buffer.len());
            buffer[..length].copy_from_slice(&piece[..length]);
            if length < piece.len() {
                self.0.push_front(piece.split_off(length));
            }
            Ok(length)
        }
    }

    /// Returns all lines with their positions, retrying until everything is read.
    fn read(pieces: Vec<Vec<u8>>) -> Vec<(Range<u64>, Vec<u8>)> {
        let (mut lines, mut found) = (Lines::new(Pieces(pieces.into()), 0), Vec::new());
        loop {
            if let Some(line) = lines.next().expect("it does not fail") {
                found.push((line.range, line.text.to_vec()));
            } else if lines.end == End::Return {
                return found;
            } else if lines.get_ref().0.is_empty() {
                lines = lines.finished();
            }
        }
    }

    #[test]
    fn long_lines_are_truncated_and_later_lines_are_read() {
        for long in [
            MAX_LINE - 1,
            MAX_LINE,
            MAX_LINE + 1,
            BUFFER_BYTES - 1,
            BUFFER_BYTES,
            BUFFER_BYTES + 1,
            10 * MAX_LINE + 7,
        ] {
            let text = [&vec![b'x'; long][..], b"\n", b"short\n"].concat();
            let found = read(text.chunks(1000).map(<[u8]>::to_vec).collect());
            assert_eq!(found.len(), 2, "{long}");
            assert_eq!(found[0].0, 0..long as u64 + 1);
            assert_eq!(found[1], (long as u64 + 1..long as u64 + 7, b"short\n".to_vec()));
            let is_long = found[0].1.trim_ascii_end().len() > MAX_LINE;
            assert_eq!(is_long, long > MAX_LINE, "{long}");
        }
    }

    proptest! {
        #[test]
        fn chunking_does_not_change_the_lines(pieces in prop::collection::vec("[a\n]{0,6}", 0..12)) {
            let whole = pieces.concat();
            let found = read(pieces.into_iter().map(String::into_bytes).collect());
            let expected: Vec<_> = whole.split_inclusive('\n').collect();
            prop_assert_eq!(found.iter().map(|(_, line)| &line[..]).collect::<Vec<_>>(), expected.iter().map(|line| line.as_bytes()).collect::<Vec<_>>());
            let mut at = 0;
            for (range, line) in &found {
                prop_assert_eq!(range.clone(), at..at + line.len() as u64);
                at = range.end;
            }
        }
    }
}
