use std::fmt;

use super::Unit;
use crate::CounterName;
use crate::visits::Measure;

/// What a rule says of one bucket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// More hits than this.
    Above { counter: CounterName, hits: u64 },
    /// Fewer hits than this.
    Below { counter: CounterName, hits: u64 },
    /// A larger share of the whole than this, where the whole has enough hits.
    ShareAbove { parts: Vec<CounterName>, whole: CounterName, share: f64, least: u64 },
    /// A larger quantile than this, where enough was measured.
    QuantileAbove { counter: CounterName, measure: Measure, q: f64, value: f64, least: u64 },
}

/// The value of a condition in one bucket, and what it may be at most or at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) is_met: bool,
    pub(crate) value: f64,
    pub(crate) bound: f64,
}

impl Condition {
    /// Returns the counters whose hits it needs.
    pub(crate) fn counters(&self) -> Vec<&CounterName> {
        match self {
            Self::Above { counter, .. } | Self::Below { counter, .. } => vec![counter],
            Self::ShareAbove { parts, whole, .. } => parts.iter().chain([whole]).collect(),
            Self::QuantileAbove { .. } => Vec::new(),
        }
    }

    /// Returns all counters that it looks at.
    pub(crate) fn looks_at(&self) -> Vec<&CounterName> {
        match self {
            Self::QuantileAbove { counter, .. } => vec![counter],
            _ => self.counters(),
        }
    }

    /// Returns the unit of its values.
    pub(crate) fn unit(&self) -> Unit {
        match self {
            Self::Above { .. } | Self::Below { .. } => Unit::Hits,
            Self::ShareAbove { .. } => Unit::Share,
            Self::QuantileAbove { measure: Measure::Size, .. } => Unit::Bytes,
            Self::QuantileAbove { .. } => Unit::Seconds,
        }
    }

    /// Judges a bucket by the hits that counters have in it; `None` where these are not known, or too few.
    pub(crate) fn judge(&self, hits: impl Fn(&CounterName) -> Option<u64>) -> Option<Verdict> {
        let verdict = |is_met, value: f64, bound: f64| Some(Verdict { is_met, value, bound });
        match self {
            Self::Above { counter, hits: bound } => {
                let hits = hits(counter)?;
                verdict(hits > *bound, hits as f64, *bound as f64)
            }
            Self::Below { counter, hits: bound } => {
                let hits = hits(counter)?;
                verdict(hits < *bound, hits as f64, *bound as f64)
            }
            Self::ShareAbove { parts, whole, share, least } => {
                let whole = hits(whole)?;
                let part = parts.iter().map(hits).sum::<Option<u64>>()?;
                let value = part as f64 / whole.max(1) as f64;
                (whole >= *least.max(&1)).then_some(())?;
                verdict(value > *share, value, *share)
            }
            Self::QuantileAbove { .. } => None,
        }
    }

    /// Writes what is the case, for people.
    pub(crate) fn explain(&self, value: f64, bound: f64, is_met: bool) -> String {
        let beyond = |above: bool| match (above, is_met) {
            (true, true) => "above",
            (true, false) => "no longer above",
            (false, true) => "below",
            (false, false) => "no longer below",
        };
        match self {
            Self::Above { counter, .. } => format!("{counter} has {value} hits, {} {bound}", beyond(true)),
            Self::Below { counter, .. } => format!("{counter} has {value} hits, {} {bound}", beyond(false)),
            Self::ShareAbove { parts, whole, .. } => {
                let parts: Vec<_> = parts.iter().map(ToString::to_string).collect();
                let (value, bound, beyond) = (Percent(value), Percent(bound), beyond(true));
                format!("{} are {value} of {whole}, {beyond} {bound}", parts.join(" and "))
            }
            Self::QuantileAbove { counter, measure, q, .. } => {
                let unit = if *measure == Measure::Size { "bytes" } else { "s" };
                let (q, beyond) = (Percent(*q), beyond(true));
                format!("{q} of {counter} have a {measure} of {value:.3} {unit} at most, {beyond} {bound}")
            }
        }
    }
}

/// What is to be the case, for people.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Above { counter, hits } => write!(f, "{counter} has more than {hits} hits"),
            Self::Below { counter, hits: 1 } => write!(f, "{counter} has no hits"),
            Self::Below { counter, hits } => write!(f, "{counter} has fewer than {hits} hits"),
            Self::ShareAbove { parts, whole, share, least } => {
                let parts: Vec<_> = parts.iter().map(ToString::to_string).collect();
                write!(f, "{} are more than {} of {whole}", parts.join(" and "), Percent(*share))?;
                if *least > 1 { write!(f, ", where that has {least} hits at least") } else { Ok(()) }
            }
            Self::QuantileAbove { counter, measure, q, value, least } => {
                let (q, unit) = (Percent(*q), if self.unit() == Unit::Bytes { "bytes" } else { "s" });
                write!(f, "{q} of {counter} do not have a {measure} of {value} {unit} at most")?;
                if *least > 1 { write!(f, ", where {least} are measured at least") } else { Ok(()) }
            }
        }
    }
}

/// A share as people read it.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = (self.0 * 1000.0).round() / 10.0;
        write!(f, "{rounded} %")
    }
}
