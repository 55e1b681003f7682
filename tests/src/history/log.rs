//! Histories as text, so that they can be stored, inspected and checked again.
//!
//! Each line is a note: `add AMOUNT COUNTER`, `acknowledge ADDITION [COUNT]`, `reject ADDITION`, `read COUNTER`,
//! `see READ COUNT` or `settle`. Additions and reads are numbered by line, from 0.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use super::{Event, History, Promise};

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { counter, amount } => write!(f, "add {amount} {counter}"),
            Self::Acknowledge { addition, count: None } => write!(f, "acknowledge {addition}"),
            Self::Acknowledge { addition, count: Some(count) } => write!(f, "acknowledge {addition} {count}"),
            Self::Reject { addition } => write!(f, "reject {addition}"),
            Self::Read { counter } => write!(f, "read {counter}"),
            Self::See { read, count } => write!(f, "see {read} {count}"),
            Self::Settle => f.write_str("settle"),
        }
    }
}

impl FromStr for History {
    type Err = String;

    /// Parses notes, one per line.
    fn from_str(text: &str) -> Result<Self, String> {
        let event = |(number, line): (usize, &str)| {
            event(line, number).ok_or_else(|| format!("line {}: not a note: {line}", number + 1))
        };
        let events = text.lines().enumerate().map(event).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(Arc::new(Mutex::new(events))))
    }
}

impl FromStr for Promise {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "eventual" => Self::Eventual,
            "monotonic" => Self::Monotonic,
            "acknowledged" => Self::Acknowledged,
            "immediate" => Self::Immediate,
            _ => return Err(format!("not eventual, monotonic, acknowledged or immediate: {text}")),
        })
    }
}

/// Parses a note that may only refer to earlier lines.
fn event(line: &str, number: usize) -> Option<Event> {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
    let earlier = || first.parse().ok().filter(|earlier| *earlier < number);
    Some(match verb {
        "add" => Event::Add { amount: first.parse().ok()?, counter: second.to_owned() },
        "acknowledge" if second.is_empty() => Event::Acknowledge { addition: earlier()?, count: None },
        "acknowledge" => Event::Acknowledge { addition: earlier()?, count: Some(second.parse().ok()?) },
        "reject" => Event::Reject { addition: earlier()? },
        "read" => Event::Read { counter: rest.to_owned() },
        "see" => Event::See { read: earlier()?, count: second.parse().ok()? },
        "settle" => Event::Settle,
        _ => return None,
    })
}
