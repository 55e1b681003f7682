use std::fmt::{self, Write as _};

use counter_core::CounterName;
use counter_core::visits::Measure;

use super::local::LocalCondition;
use super::run::Run;
use super::unit::Unit;
use super::verdict::{Expected, Side, Verdict};
use crate::isolated::Isolated;

/// The condition of a rule on a bucket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// The counter has more than `hits` hits in a bucket.
    Above { counter: CounterName, hits: u64 },
    /// The counter has fewer than `hits` hits in a bucket.
    Below { counter: CounterName, hits: u64 },
    /// The hits of `parts` are more than a `share` of the hits of `whole`, which must be at least
    /// `min_count`.
    ShareAbove { parts: Vec<CounterName>, whole: CounterName, share: f64, min_count: u64 },
    /// The quantile `q` of a measure is larger than `value`, based on at least `min_count` values.
    QuantileAbove { counter: CounterName, measure: Measure, q: f64, value: f64, min_count: u64 },
    /// The hits are outside of the expected band on `side`, or are missing for longer than expected.
    Unusual { counter: CounterName, side: Side, false_alarms: f64 },
    /// The counter gets no hits in a bucket, while the counter `site` gets hits.
    Dead { counter: CounterName, site: CounterName },
    /// A value with at least `min_count` hits is new in the top list of a label, which has `places` places.
    NewLabel { label: String, places: usize, min_count: u64 },
    /// A condition on this process.
    Local(LocalCondition),
}

impl Condition {
    /// Returns the counters to read hits for.
    pub(crate) fn counters(&self) -> Vec<&CounterName> {
        match self {
            Self::Above { counter, .. } | Self::Below { counter, .. } => vec![counter],
            Self::ShareAbove { parts, whole, .. } => parts.iter().chain([whole]).collect(),
            Self::Dead { counter, site } => vec![counter, site],
            Self::QuantileAbove { .. } | Self::Unusual { .. } | Self::NewLabel { .. } | Self::Local(_) => {
                Vec::new()
            }
        }
    }

    /// Returns all counters used by this condition.
    pub(crate) fn all_counters(&self) -> Vec<&CounterName> {
        match self {
            Self::QuantileAbove { counter, .. } | Self::Unusual { counter, .. } => vec![counter],
            _ => self.counters(),
        }
    }

    /// Returns the value unit.
    pub(crate) fn unit(&self) -> Unit {
        match self {
            Self::Above { .. }
            | Self::Below { .. }
            | Self::Unusual { .. }
            | Self::Dead { .. }
            | Self::NewLabel { .. } => Unit::Hits,
            Self::ShareAbove { .. } => Unit::Share,
            Self::QuantileAbove { measure: Measure::Size, .. } => Unit::Bytes,
            Self::QuantileAbove { .. } => Unit::Seconds,
            Self::Local(condition) => condition.unit(),
        }
    }

    /// Evaluates a bucket from the hits of the counters. Returns `None` if the hits are unknown or too few.
    pub(crate) fn evaluate(&self, hits: impl Fn(&CounterName) -> Option<u64>) -> Option<Verdict> {
        let verdict = |is_met, value: f64, bound: f64| Some(Verdict::new(is_met, value, bound));
        match self {
            Self::Above { counter, hits: bound } => {
                let hits = hits(counter)?;
                verdict(hits > *bound, hits as f64, *bound as f64)
            }
            Self::Below { counter, hits: bound } => {
                let hits = hits(counter)?;
                verdict(hits < *bound, hits as f64, *bound as f64)
            }
            Self::ShareAbove { parts, whole, share, min_count } => {
                let whole = hits(whole)?;
                let part = parts.iter().try_fold(0_u64, |sum, part| Some(sum.saturating_add(hits(part)?)))?;
                let value = part as f64 / whole.max(1) as f64;
                (whole >= *min_count.max(&1)).then_some(())?;
                verdict(value > *share, value, *share)
            }
            Self::Dead { counter, site } => {
                let (hits, site_hits) = (hits(counter)?, hits(site)?);
                (site_hits > 0).then_some(())?;
                verdict(hits == 0, hits as f64, 1.0)
            }
            Self::QuantileAbove { .. } | Self::Unusual { .. } | Self::NewLabel { .. } | Self::Local(_) => {
                None
            }
        }
    }

    /// Explains the verdict on a bucket in a sentence.
    pub(crate) fn explain(&self, verdict: &Verdict, run: Run) -> String {
        let Verdict { is_met, value, bound, ref label, .. } = *verdict;
        let (above, below) = if is_met { ("above", "below") } else { ("no longer above", "no longer below") };
        let hits = Hits(value);
        match self {
            Self::Above { counter, .. } => format!("{} has {hits}, {above} {bound}", Isolated(counter)),
            Self::Below { counter, .. } => format!("{} has {hits}, {below} {bound}", Isolated(counter)),
            Self::ShareAbove { parts, whole, .. } => {
                let (value, whole, bound) = (Percent(value), Isolated(whole), Percent(bound));
                format!("{} are {value} of {whole}, {above} {bound}", joined(parts))
            }
            Self::QuantileAbove { counter, measure, q, .. } => {
                let unit = if *measure == Measure::Size { "bytes" } else { "s" };
                let (q, counter) = (Percent(*q), Isolated(counter));
                format!(
                    "the {q} quantile of the {measure} of {counter} is {value:.3} {unit}, {above} {bound}"
                )
            }
            Self::Unusual { counter, side, .. } => explain_unusual(&Isolated(counter), *side, verdict, run),
            Self::Dead { counter, .. } if is_met => format!("{} has no hits", Isolated(counter)),
            Self::Dead { counter, .. } => format!("{} has {hits}", Isolated(counter)),
            Self::NewLabel { label: of, places, .. } => match label {
                Some(new) => {
                    format!("{} is new in the top {places} of {of}, with {hits}", Isolated(new))
                }
                None => format!("no new value in the top {places} of {of}"),
            },
            Self::Local(condition) => condition.explain(verdict),
        }
    }
}

/// Explains a verdict on an unusual count.
fn explain_unusual(counter: &Isolated<'_>, side: Side, verdict: &Verdict, run: Run) -> String {
    let Verdict { is_met, value, bound, expected, .. } = *verdict;
    let (hits, since) = (Hits(value), run.since());
    match (side, expected) {
        (Side::Silent, _) if is_met => {
            format!("{counter}: no hits, although {} were expected by now", Grouped(bound.round()))
        }
        (Side::Silent, _) => format!("{counter}: hits again since {since}"),
        (_, Some(Expected { lower, upper, .. })) => {
            let usual = format!("usually {} to {}", Grouped(lower), Grouped(upper));
            match is_met {
                true => format!("{counter}: {hits} {run}, {usual}"),
                false if lower <= value && value <= upper => {
                    format!("{counter}: back to normal since {since}, with {hits} {run}, {usual}")
                }
                // The rule does not watch this side.
                false if value < lower => {
                    format!("{counter}: no longer high since {since}, with {hits} {run}, {usual}")
                }
                false => format!("{counter}: no longer low since {since}, with {hits} {run}, {usual}"),
            }
        }
        (_, None) => format!("{counter}: {hits} {run}"),
    }
}

fn joined(counters: &[CounterName]) -> String {
    let names: Vec<_> = counters.iter().map(|name| Isolated(name).to_string()).collect();
    names.join(" and ")
}

/// Writes the condition of a rule as text for people, e.g. `hits has more than 1000 hits`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = |min_count: u64, description: &str| match min_count {
            0 | 1 => String::new(),
            min_count => format!(", if there are at least {min_count} {description}"),
        };
        match self {
            Self::Above { counter, hits } => write!(f, "{} has more than {hits} hits", Isolated(counter)),
            Self::Below { counter, hits: 1 } => write!(f, "{} has no hits", Isolated(counter)),
            Self::Below { counter, hits } => write!(f, "{} has fewer than {hits} hits", Isolated(counter)),
            Self::ShareAbove { parts, whole, share, min_count } => {
                let (share, whole, min_count) =
                    (Percent(*share), Isolated(whole), at_least(*min_count, "hits"));
                write!(f, "{} are more than {share} of {whole}{min_count}", joined(parts))
            }
            Self::QuantileAbove { counter, measure, q, value, min_count } => {
                let unit = if self.unit() == Unit::Bytes { "bytes" } else { "s" };
                let (q, counter, min_count) =
                    (Percent(*q), Isolated(counter), at_least(*min_count, "values"));
                write!(f, "the {q} quantile of the {measure} of {counter} is above {value} {unit}{min_count}")
            }
            Self::Unusual { counter, side, .. } => {
                let description = match side {
                    Side::High => "more hits than expected",
                    Side::Low => "fewer hits than expected",
                    Side::Either => "more or fewer hits than expected",
                    Side::Silent => "no hits for longer than expected",
                };
                write!(f, "{} has {description}", Isolated(counter))
            }
            Self::Dead { counter, site } => {
                write!(f, "{} has no hits while {} has some", Isolated(counter), Isolated(site))
            }
            Self::NewLabel { label, places, min_count } => {
                let min_count = at_least(*min_count, "hits");
                write!(f, "a new value appears in the top {places} of {label}{min_count}")
            }
            Self::Local(condition) => condition.fmt(f),
        }
    }
}

/// Formats a number of hits.
struct Hits(f64);

impl fmt::Display for Hits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Grouped(self.0), if (self.0 - 1.0).abs() < f64::EPSILON { "hit" } else { "hits" })
    }
}

/// Formats a number of hits with groups of three digits.
pub(crate) struct Grouped(pub(crate) f64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1000.0 {
            return self.0.fmt(f);
        }
        let digits = format!("{:.0}", self.0);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

/// Formats a share as a percentage.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = (self.0 * 1000.0).round() / 10.0;
        write!(f, "{rounded} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_parts_stays_at_the_maximum() {
        let name = |name| CounterName::new(name).expect("a name");
        let (parts, whole) = (vec![name("a"), name("b")], name("hits"));
        let condition = Condition::ShareAbove { parts, whole, share: 0.5, min_count: 1 };
        let verdict = condition.evaluate(|_| Some(u64::MAX)).expect("all hits are known");
        assert!(verdict.is_met);
        assert_eq!(verdict.value, 1.0);
    }

    #[test]
    fn an_unusual_count_is_explained_in_a_sentence() {
        let counter = CounterName::new("views").expect("a name");
        let start = counter_core::Timestamp::from_unix(1_585_526_400 + 9 * 3600);
        let run = Run { start, width: 3600, since: start.minus(3600) };
        let expected = Expected { value: 1100.0, lower: 900.0, upper: 1400.0, error: 60.0, model: "day" };
        for (side, is_met, hits, sentence) in [
            (
                Side::Either,
                true,
                2310.0,
                "views: 2,310 hits between 09:00 and 10:00 UTC, usually 900 to 1,400",
            ),
            (
                Side::Either,
                false,
                1000.0,
                "views: back to normal since 08:00 UTC, with 1,000 hits between 09:00 and 10:00 UTC, usually 900 to \
                 1,400",
            ),
            (
                Side::High,
                false,
                1.0,
                "views: no longer high since 08:00 UTC, with 1 hit between 09:00 and 10:00 UTC, usually 900 to 1,400",
            ),
            (Side::Silent, true, 0.0, "views: no hits, although 1,100 were expected by now"),
            (Side::Silent, false, 7.0, "views: hits again since 08:00 UTC"),
        ] {
            let verdict = Verdict { expected: Some(expected), ..Verdict::new(is_met, hits, 1100.0) };
            let condition = Condition::Unusual { counter: counter.clone(), side, false_alarms: 1e-6 };
            assert_eq!(condition.explain(&verdict, run), sentence);
        }
    }
}
