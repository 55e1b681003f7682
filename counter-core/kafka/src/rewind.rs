use std::time::Duration;

use tokio::time::Instant;

/// Recognizes records that were fetched before a partition went back to an earlier position.
///
/// librdkafka drops them itself. Without that, the next one would be taken for the first after a gap, and everything
/// between would be skipped. The first record after the seek lies before those that were read earlier, unless all of these
/// were removed from the log meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Rewind {
    /// The offset after the last record that was polled.
    polled: u64,
    /// The offset from which on records may have been fetched before the seek, and the time of the seek.
    outdated: Option<(u64, Instant)>,
}

/// What to do with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// It was fetched after the last seek.
    Now,
    /// It may have been fetched before the last seek, and comes again.
    Before,
    /// The log no longer has the records that were read earlier: fetch from the position once more.
    Again,
}

/// The time after a seek in which all that was fetched before it has been polled.
const MAX_DRAIN: Duration = Duration::from_secs(1);

impl Rewind {
    /// Notes that a partition is fetched from this position on.
    pub(crate) fn seek(&mut self, position: u64, now: Instant) {
        self.outdated = (position < self.polled).then_some((self.polled, now));
    }

    /// Decides about the record at this offset.
    pub(crate) fn poll(&mut self, offset: u64, now: Instant) -> Fetched {
        match self.outdated {
            Some((from, seek)) if offset >= from && now.duration_since(seek) < MAX_DRAIN => Fetched::Before,
            Some((from, _)) if offset >= from => {
                *self = Self::default();
                Fetched::Again
            }
            _ => {
                *self = Self { polled: offset + 1, outdated: None };
                Fetched::Now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_from_before_a_seek_are_dropped_until_an_earlier_one_arrives() {
        let (mut rewind, now) = (Rewind::default(), Instant::now());
        for offset in 10..20 {
            assert_eq!(rewind.poll(offset, now), Fetched::Now);
        }
        rewind.seek(15, now);
        assert_eq!([20, 21].map(|offset| rewind.poll(offset, now)), [Fetched::Before; 2]);
        // The log was compacted.
        assert_eq!([16, 19, 22].map(|offset| rewind.poll(offset, now)), [Fetched::Now; 3]);
    }

    #[test]
    fn a_seek_forward_drops_nothing() {
        let (mut rewind, now) = (Rewind::default(), Instant::now());
        assert_eq!(rewind.poll(10, now), Fetched::Now);
        for position in [11, 50] {
            rewind.seek(position, now);
            assert_eq!(rewind.poll(60, now), Fetched::Now);
        }
    }

    #[test]
    fn if_all_earlier_records_were_removed_the_log_is_fetched_once_more() {
        let (mut rewind, now) = (Rewind::default(), Instant::now());
        assert_eq!(rewind.poll(10, now), Fetched::Now);
        rewind.seek(5, now);
        assert_eq!(rewind.poll(100, now), Fetched::Before);
        assert_eq!(rewind.poll(101, now + MAX_DRAIN), Fetched::Again);
        rewind.seek(5, now + MAX_DRAIN);
        assert_eq!(rewind.poll(100, now + MAX_DRAIN), Fetched::Now);
    }
}
