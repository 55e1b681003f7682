use serde::{Deserialize, Serialize};

/// The unit of the value and the bound of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Unit {
    /// A number of hits.
    Hits,
    /// A share of a whole, between 0 and 1.
    Share,
    /// A time in seconds.
    Seconds,
    /// A size in bytes.
    Bytes,
    /// A number of other things.
    Count,
}

impl Unit {
    /// Formats a value in this unit.
    ///
    /// ```
    /// use counter_alert::Unit;
    ///
    /// assert_eq!(Unit::Share.text(0.0512), "5.1 %");
    /// assert_eq!(Unit::Seconds.text(0.25), "0.250 s");
    /// assert_eq!(Unit::Hits.text(1.0), "1 hit");
    /// ```
    #[must_use]
    pub fn text(self, value: f64) -> String {
        let tenth = |value: f64| (value * 10.0).round() / 10.0;
        match self {
            Self::Hits if value == 1.0 => "1 hit".to_owned(),
            Self::Hits => format!("{} hits", tenth(value)),
            Self::Share => format!("{} %", tenth(value * 100.0)),
            Self::Seconds => format!("{value:.3} s"),
            Self::Bytes => format!("{value:.0} bytes"),
            Self::Count => tenth(value).to_string(),
        }
    }
}
