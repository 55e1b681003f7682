use std::time::Duration;

use tokio::time::Instant;

/// Detects stale records that were prefetched before a seek.
///
/// librdkafka should drop these records. If it doesn't, the consumer would interpret the next record as the
/// end of a gap, and skip everything in between. The first record after a seek always has a lower offset than
/// stale records, unless retention has removed all records in between.
#[derive(Debug, Default)]
pub(crate) struct Rewind {
    /// Offset after the most recently polled record.
    polled: u64,
    /// Lowest offset that might be stale, and the time of the seek.
    outdated: Option<(u64, Instant)>,
}

/// Classification of a fetched record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// The record was fetched after the seek.
    Now,
    /// The record may be stale. If it is, we will receive it again.
    Before,
    /// The previously read records have been removed from the log, so we need to fetch from the position
    /// again.
    Again,
}

/// Time after a seek in which stale records can still be polled.
const MAX_DRAIN: Duration = Duration::from_secs(1);

impl Rewind {
    /// Must be called when a partition is fetched from a new position.
    pub(crate) fn seek(&mut self, position: u64, now: Instant) {
        self.outdated = (position < self.polled).then_some((self.polled, now));
    }

    /// Classifies the record at this offset.
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
    fn records_fetched_before_a_seek_are_dropped_until_an_earlier_one_arrives() {
        let (mut rewind, now) = (Rewind::default(), Instant::now());
        for offset in 10..20 {
            assert_eq!(rewind.poll(offset, now), Fetched::Now);
        }
        rewind.seek(15, now);
        assert_eq!([20, 21].map(|offset| rewind.poll(offset, now)), [Fetched::Before; 2]);
        // The log has been compacted.
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
    fn if_all_earlier_records_were_removed_the_log_is_fetched_again() {
        let (mut rewind, now) = (Rewind::default(), Instant::now());
        assert_eq!(rewind.poll(10, now), Fetched::Now);
        rewind.seek(5, now);
        assert_eq!(rewind.poll(100, now), Fetched::Before);
        assert_eq!(rewind.poll(101, now + MAX_DRAIN), Fetched::Again);
        rewind.seek(5, now + MAX_DRAIN);
        assert_eq!(rewind.poll(100, now + MAX_DRAIN), Fetched::Now);
    }
}
