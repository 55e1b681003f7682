use std::fmt;

use counter_core::Timestamp;

/// The bucket of a verdict, and the run of buckets with the same verdict up to it.
///
/// `Display` writes the bucket in words, in UTC: `between 09:00 and 10:00 UTC`, or `on 2026-11-29`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) start: Timestamp,
    /// The width in seconds.
    pub(crate) width: u64,
    /// The start of the run.
    pub(crate) since: Timestamp,
}

const DAY: u64 = 86_400;

impl Run {
    /// Writes the start of the run.
    pub(crate) fn since(self) -> String {
        match self.width {
            DAY.. => date(self.since),
            _ => format!("{} UTC", time(self.since)),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.start.plus(self.width);
        match self.width {
            ..DAY => write!(f, "between {} and {} UTC", time(self.start), time(end)),
            DAY => write!(f, "on {}", date(self.start)),
            _ => write!(f, "from {} to {}", date(self.start), date(end.minus(DAY))),
        }
    }
}

/// Writes a time of day, with seconds if there are any.
fn time(at: Timestamp) -> String {
    let seconds = at.as_unix() % DAY;
    let text = format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    if seconds.is_multiple_of(60) { text } else { format!("{text}:{:02}", seconds % 60) }
}

/// Writes the date of the day that starts at this instant. This is the date of its noon, because a day can
/// start at another hour than midnight UTC.
fn date(at: Timestamp) -> String {
    let noon = i64::try_from(at.as_unix()).ok().and_then(|at| jiff::Timestamp::from_second(at + 43_200).ok());
    noon.map_or_else(|| at.to_string(), |noon| noon.to_zoned(jiff::tz::TimeZone::UTC).date().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_written_in_words() {
        let start = Timestamp::from_unix(1_585_526_400 + 9 * 3600);
        let words = |start: Timestamp, width| Run { start, width, since: start }.to_string();
        assert_eq!(words(start, 3600), "between 09:00 and 10:00 UTC");
        assert_eq!(words(start.plus(30), 30), "between 09:00:30 and 09:01 UTC");
        assert_eq!(words(start.minus(9 * 3600), DAY), "on 2020-03-30");
        // In New York.
        assert_eq!(words(start.minus(5 * 3600), DAY), "on 2020-03-30");
        assert_eq!(words(start.minus(9 * 3600), 7 * DAY), "from 2020-03-30 to 2020-04-05");
    }
}
