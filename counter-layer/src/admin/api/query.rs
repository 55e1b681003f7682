use std::ops::Range;

use counter_core::{CounterName, Precisions, Retention, Timestamp};

use http::Method;

use super::export::Format;
use crate::admin::problem::Problem;

/// Counters that one request may name.
pub(crate) const COUNTERS: usize = 100;

/// The width of the precision of what names none, where it is kept.
pub(crate) const USUAL: u32 = 60;

/// For this many seconds after its end a bucket may still get hits from the last flush.
#[cfg(any(feature = "forecast", feature = "dashboard"))]
pub(crate) const LAG: u64 = 2;

/// A range of a request.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) range: Range<Timestamp>,
    /// Whether nothing was said of its beginning, and more is kept than one answer has.
    pub(crate) cut: bool,
}

/// The parameters of a request.
#[derive(Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string, in which nothing else than `known` may stand.
    pub(crate) fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned();
        // A form sends what was left empty; only these may be empty and mean something.
        let said = |(name, value): &(String, String)| {
            !value.is_empty()
                || !known.contains(&name.as_str())
                || ["counter", "path"].contains(&name.as_str())
        };
        let pairs: Vec<(String, String)> = pairs.filter(said).collect();
        match pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, value)) => {
                // What is called a token may be one, and is not said again.
                let value = (name != "token").then_some(&**value);
                Err(Problem::parameter("there is no such parameter", name, value, known.join(", ")))
            }
            None => Ok(Self(pairs)),
        }
    }

    /// The counters asked for: at least one, and not too many.
    pub(crate) fn counters(&self) -> Result<Vec<CounterName>, Problem> {
        match self.some_counters() {
            Ok(none) if none.is_empty() => {
                Err(Problem::parameter("a parameter is missing", "counter", None, "the name of a counter"))
            }
            counters => counters,
        }
    }

    /// The counters asked for, of which there may be none.
    pub(crate) fn some_counters(&self) -> Result<Vec<CounterName>, Problem> {
        let values = self.0.iter().filter(|(name, _)| name == "counter").map(|(_, value)| value);
        let counters: Result<Vec<_>, _> = values.map(|value| name("counter", value)).collect();
        match counters {
            Ok(many) if many.len() > COUNTERS => {
                let allowed = format!("at most {COUNTERS} counters");
                Err(Problem::parameter(
                    "too many counters",
                    "counter",
                    Some(&many.len().to_string()),
                    allowed,
                ))
            }
            counters => counters,
        }
    }

    pub(crate) fn counter(&self) -> Result<CounterName, Problem> {
        self.one("counter")?;
        Ok(self.counters()?.remove(0))
    }

    pub(crate) fn method(&self) -> Result<Method, Problem> {
        let Some(value) = self.one("method")? else { return Ok(Method::GET) };
        let allowed = "a method in capitals, such as GET";
        value.parse().map_err(|_| Problem::parameter("not a method", "method", Some(value), allowed))
    }

    /// The path of a request, which may be any text.
    pub(crate) fn path(&self) -> Result<&str, Problem> {
        let missing = || Problem::parameter("a parameter is missing", "path", None, "the path of a request");
        self.one("path")?.ok_or_else(missing)
    }

    /// The template of a route.
    pub(crate) fn matched(&self) -> Result<Option<&str>, Problem> {
        self.one("matched")
    }

    pub(crate) fn after(&self) -> Result<Option<CounterName>, Problem> {
        self.one("after")?.map(|value| name("after", value)).transpose()
    }

    /// What the names of the counters asked for begin with.
    pub(crate) fn prefix(&self) -> Result<&str, Problem> {
        Ok(self.one("prefix")?.unwrap_or_default())
    }

    pub(crate) fn limit(&self, usual: usize) -> Result<usize, Problem> {
        match self.one("limit")? {
            None => Ok(usual),
            Some(value) => value.parse().ok().filter(|limit| (1..=1000).contains(limit)).ok_or_else(|| {
                Problem::parameter("not a number of counters", "limit", Some(value), "1 to 1000")
            }),
        }
    }

    #[cfg(feature = "forecast")]
    pub(crate) fn horizon(&self, usual: usize) -> Result<usize, Problem> {
        match self.one("horizon")? {
            None => Ok(usual),
            Some(value) => {
                value.parse().ok().filter(|horizon| (1..=500).contains(horizon)).ok_or_else(|| {
                    Problem::parameter("not a number of buckets", "horizon", Some(value), "1 to 500")
                })
            }
        }
    }

    pub(crate) fn format(&self) -> Result<Format, Problem> {
        match self.one("format")? {
            None | Some("csv") => Ok(Format::Csv),
            Some("ndjson") => Ok(Format::Ndjson),
            Some(value) => {
                Err(Problem::parameter("not a format of a file", "format", Some(value), "csv, ndjson"))
            }
        }
    }

    /// What is to stand beside a number.
    pub(crate) fn label(&self, most: usize) -> Result<Option<&str>, Problem> {
        match self.one("label")? {
            Some(label) if label.chars().count() > most => {
                let allowed = format!("1 to {most} characters");
                Err(Problem::parameter("not a label", "label", Some(label), allowed))
            }
            label => Ok(label),
        }
    }

    /// Whether anything is said of the time.
    pub(crate) fn is_over_a_range(&self) -> bool {
        self.0.iter().any(|(name, _)| ["precision", "from", "to"].contains(&name.as_str()))
    }

    pub(crate) fn zero_filled(&self) -> Result<bool, Problem> {
        match self.one("fill")? {
            None | Some("none") => Ok(false),
            Some("zero") => Ok(true),
            Some(value) => {
                Err(Problem::parameter("not a way to fill gaps", "fill", Some(value), "none, zero"))
            }
        }
    }

    /// A precision, and how much is kept of it.
    pub(crate) fn kept(&self, kept: &Precisions) -> Result<Retention, Problem> {
        let value = self.one("precision")?;
        value.and_then(|value| precision(value, kept)).ok_or_else(|| {
            let error =
                if value.is_none() { "a parameter is missing" } else { "not a precision that is kept" };
            Problem::parameter(error, "precision", value, kept.to_string())
        })
    }

    /// The precision asked for; that of minutes, or the finest, where none is.
    pub(crate) fn kept_or_usual(&self, kept: &Precisions) -> Result<Retention, Problem> {
        match self.one("precision")? {
            None => Ok(usual(kept)),
            Some(_) => self.kept(kept),
        }
    }

    /// From the oldest bucket that is kept to the current one, where nothing else is said; of more than
    /// `most` buckets, which one answer can have, the latest.
    pub(crate) fn range_of(&self, kept: Retention, most: u64, now: Timestamp) -> Result<Asked, Problem> {
        let precision = kept.precision;
        let to = self.time("to")?.unwrap_or_else(|| precision.bucket(now).end());
        let oldest = kept.oldest(now);
        let length = most.saturating_sub(1).saturating_mul(precision.as_seconds().into());
        let latest = precision.bucket(to.minus(1)).start.minus(length);
        let said = self.time("from")?;
        let from = said.unwrap_or(oldest.max(latest));
        if from < to {
            return Ok(Asked { range: from..to, cut: said.is_none() && oldest < latest });
        }
        let (parameter, allowed) = match self.one("to")? {
            Some(_) => ("to", format!("Unix seconds after {from}")),
            None => ("from", format!("Unix seconds before {to}")),
        };
        Err(Problem::parameter("the range ends before it begins", parameter, self.one(parameter)?, allowed))
    }

    fn time(&self, parameter: &str) -> Result<Option<Timestamp>, Problem> {
        let Some(value) = self.one(parameter)? else { return Ok(None) };
        let time = value.parse().ok().filter(|seconds| *seconds <= Timestamp::MAX.as_unix());
        let time = time.ok_or_else(|| {
            let allowed = format!("Unix seconds, 0 to {}", Timestamp::MAX);
            Problem::parameter("not a time", parameter, Some(value), allowed)
        })?;
        Ok(Some(Timestamp::from_unix(time)))
    }

    fn one(&self, parameter: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(name, _)| name == parameter).map(|(_, value)| value.as_str());
        let first = values.next();
        match values.next() {
            Some(second) => {
                Err(Problem::parameter("a parameter is there twice", parameter, Some(second), "one value"))
            }
            None => Ok(first),
        }
    }
}

/// The precision of what names none: minutes where they are kept, or the finest.
pub(crate) fn usual(kept: &Precisions) -> Retention {
    kept.of_width(USUAL).or_else(|| kept.iter().next()).expect("a set of precisions is never empty")
}

/// The precision of this width, wherever its buckets begin, or the one of this text in full.
pub(crate) fn precision(text: &str, kept: &Precisions) -> Option<Retention> {
    match text.parse() {
        Ok(width) => kept.of_width(width),
        Err(_) => kept.retention(text.parse().ok()?),
    }
}

fn name(parameter: &str, value: &str) -> Result<CounterName, Problem> {
    CounterName::new(value).map_err(|error| {
        let allowed = format!("1 to {} bytes without control characters", CounterName::MAX_BYTES);
        Problem::parameter(error.to_string(), parameter, Some(value), allowed)
    })
}
