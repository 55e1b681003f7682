//! The id of a live event: the progress of the client, and a hash of the samples that it already has.
//!
//! A client that reconnects sends this mark back to us, and we always resend the samples that usually change.
//! Older samples only need to be sent if they changed in the meantime, e.g. because hits arrived late. The
//! hash detects this, even if the client connects to a different instance: that instance can compare the hash
//! with the samples that it just read.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use counter_core::Timestamp;

/// Counts by bucket start.
pub(crate) type Counts = BTreeMap<Timestamp, u64>;

/// The samples that a client already has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The samples that are hashed. Samples after this range usually change, so they are always resent.
    range: Range<Timestamp>,
    hash: u64,
}

/// Buckets this close to the end of retention are not hashed, so that a client can be offline this long.
const EXPIRY_MARGIN: Duration = Duration::from_secs(60);

impl Mark {
    /// Creates a mark for a client that already has the samples in `counts`, by counter.
    pub(crate) fn new<'a>(
        oldest: Timestamp,
        open_from: Timestamp,
        counts: impl Iterator<Item = &'a Counts>,
    ) -> Self {
        let half = (open_from.as_unix() - oldest.as_unix().min(open_from.as_unix())) / 2;
        let range = oldest.plus(half.min(EXPIRY_MARGIN.as_secs()))..open_from;
        Self { hash: hash(&range, counts), range }
    }

    /// Returns the start of the samples to resend, or `None` if older samples have changed as well.
    pub(crate) fn since<'a>(
        &self,
        oldest: Timestamp,
        counts: impl Iterator<Item = &'a Counts>,
    ) -> Option<Timestamp> {
        // The client can send any mark. Without this check, a reversed range would request all samples since
        // 1970.
        let is_retained = oldest <= self.range.start && self.range.start <= self.range.end;
        (is_retained && self.hash == hash(&self.range, counts)).then_some(self.range.end)
    }
}

/// Different versions of the standard library may hash differently. In this case, a client will just receive
/// all samples.
fn hash<'a>(range: &Range<Timestamp>, counts: impl Iterator<Item = &'a Counts>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (index, counts) in counts.enumerate() {
        if !range.is_empty() {
            for (start, count) in counts.range(range.clone()) {
                (index, start.as_unix(), count).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = &self.range;
        write!(f, "{end}-{start}-{:016x}", self.hash)
    }
}

impl FromStr for Mark {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('-');
        let mut part = || parts.next().ok_or(());
        let [end, start] = [part()?, part()?].map(|time| time.parse().map(Timestamp::from_unix));
        let hash = u64::from_str_radix(part()?, 16).map_err(drop)?;
        let range = start.map_err(drop)?..end.map_err(drop)?;
        if parts.next().is_some() { Err(()) } else { Ok(Self { range, hash }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn unix(seconds: u64) -> Timestamp {
        Timestamp::from_unix(seconds)
    }

    fn counts(pairs: &[(u64, u64)]) -> Counts {
        pairs.iter().map(|&(start, count)| (unix(start), count)).collect()
    }

    #[test]
    fn marks_round_trip_through_text_and_invalid_text_is_rejected() {
        let mark = Mark::new(unix(1000), unix(2000), [counts(&[(1500, 7)])].iter());
        assert_eq!(mark.to_string().parse(), Ok(mark));
        for text in ["", "1", "1-", "1-2", "1-2-x", "1-2-3-4", "-1-2-3", "99999999999999999999-1-1", "é-1-1"]
        {
            assert_eq!(text.parse::<Mark>(), Err(()), "{text}");
        }
    }

    #[test]
    fn only_recent_samples_are_resent_if_older_samples_match() {
        let had = [counts(&[(1500, 7), (1990, 1)]), counts(&[(1100, 2)])];
        let mark = Mark::new(unix(1000), unix(1980), had.iter());
        let same = [counts(&[(1500, 7), (1990, 5), (2000, 1)]), counts(&[(1100, 2)])];
        let late = [counts(&[(1500, 8), (1990, 1)]), counts(&[(1100, 2)])];
        let moved = [counts(&[(1990, 1)]), counts(&[(1100, 2), (1500, 7)])];
        for (now, oldest, since) in [
            (&same, 1000, Some(unix(1980))),
            (&same, 1060, Some(unix(1980))),
            (&same, 1061, None),
            (&late, 1000, None),
            (&moved, 1000, None),
        ] {
            assert_eq!(mark.since(unix(oldest), now.iter()), since, "{now:?} from {oldest}");
        }
    }

    #[test]
    fn forged_marks_cannot_request_samples_outside_retention() {
        let all = [counts(&[(1500, 7)])];
        let of_nothing = Mark::new(unix(5), unix(5), all.iter()).hash;
        for (start, end) in [(u64::MAX, 0), (1000, 999), (999, 0), (999, 999), (0, u64::MAX)] {
            let forged = Mark { range: unix(start)..unix(end), hash: of_nothing };
            assert_eq!(forged.since(unix(1000), all.iter()), None, "{forged}");
        }
    }

    #[test]
    fn marks_of_any_range_do_not_panic() {
        for (oldest, open_from) in [(5, 5), (6, 5), (0, u64::MAX), (u64::MAX, 0)] {
            let all = [counts(&[(5, 1)])];
            let mark = Mark::new(unix(oldest), unix(open_from), all.iter());
            mark.since(unix(oldest), all.iter());
        }
    }
}
