use counter_core::{Counter, Recorder};
use http::{HeaderMap, Method};

use crate::Outcome;
use crate::agent::is_bot;

/// A second view of all requests, kept beside `hits` as series of its own with fixed names.
///
/// | facet | counters |
/// |---|---|
/// | `Status` | `status:1xx` … `status:5xx`, `status:failed` (an error or a panic of the inner service), `status:aborted` |
/// | `Method` | `method:GET`, `method:HEAD`, `method:POST`, `method:PUT`, `method:DELETE`, `method:OPTIONS`, `method:PATCH`, `method:other` |
/// | `Agent` | `agent:human`, `agent:bot` |
///
/// Every counted request is in exactly one counter of each facet, so each facet sums to `hits` (but for
/// the status of requests that are counted at arrival). A bot
/// is who says so: a user agent with `bot`, `crawl`, `spider`, `slurp`, `monitor` or `http` in it, or
/// none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Facet {
    /// By the class of the status.
    Status,
    /// By the method.
    Method,
    /// By bots and all others.
    Agent,
}

/// The counters of the facets that were chosen, resolved once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facets {
    status: Option<[Counter; STATUSES.len()]>,
    method: Option<[Counter; METHODS.len()]>,
    agent: Option<[Counter; AGENTS.len()]>,
}

/// What of a request the facets want to know when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    method: usize,
    agent: usize,
}

const STATUSES: [&str; 7] =
    ["status:1xx", "status:2xx", "status:3xx", "status:4xx", "status:5xx", "status:failed", "status:aborted"];
const METHODS: [&str; 8] = [
    "method:GET",
    "method:HEAD",
    "method:POST",
    "method:PUT",
    "method:DELETE",
    "method:OPTIONS",
    "method:PATCH",
    "method:other",
];
const AGENTS: [&str; 2] = ["agent:human", "agent:bot"];
impl Facets {
    pub(crate) fn of(recorder: &Recorder, chosen: &[Facet]) -> Self {
        Self {
            status: chosen.contains(&Facet::Status).then(|| STATUSES.map(|name| recorder.counter(name))),
            method: chosen.contains(&Facet::Method).then(|| METHODS.map(|name| recorder.counter(name))),
            agent: chosen.contains(&Facet::Agent).then(|| AGENTS.map(|name| recorder.counter(name))),
        }
    }

    /// Reads no more of a request than the chosen facets need.
    pub(crate) fn traits(&self, method: &Method, headers: &HeaderMap) -> Traits {
        Traits {
            method: self.method.map_or(0, |_| method_place(method)),
            agent: self.agent.map_or(0, |_| usize::from(is_bot(headers))),
        }
    }

    /// The counters of a request.
    pub(crate) fn counters(&self, traits: Traits, outcome: Outcome) -> [Option<Counter>; 3] {
        [
            self.status.zip(status_place(outcome)).map(|(counters, place)| counters[place]),
            self.method.map(|counters| counters[traits.method]),
            self.agent.map(|counters| counters[traits.agent]),
        ]
    }
}

fn status_place(outcome: Outcome) -> Option<usize> {
    match outcome {
        Outcome::Arrived => None,
        Outcome::Answered(status) => Some(usize::from(status.as_u16() / 100).clamp(1, 5) - 1),
        Outcome::Failed | Outcome::Panicked => Some(5),
        Outcome::Aborted => Some(6),
    }
}

fn method_place(method: &Method) -> usize {
    let other = METHODS.len() - 1;
    let named = |name: &str| name.strip_prefix("method:") == Some(method.as_str());
    METHODS[..other].iter().position(|name| named(name)).unwrap_or(other)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn every_method_and_outcome_has_its_one_counter() {
        for (method, name) in [
            (Method::GET, "method:GET"),
            (Method::HEAD, "method:HEAD"),
            (Method::PATCH, "method:PATCH"),
            (Method::CONNECT, "method:other"),
            (Method::TRACE, "method:other"),
            (Method::from_bytes(b"ET").expect("a method"), "method:other"),
        ] {
            assert_eq!(METHODS[method_place(&method)], name);
        }
        for (outcome, name) in [
            (Outcome::Answered(StatusCode::SWITCHING_PROTOCOLS), "status:1xx"),
            (Outcome::Answered(StatusCode::NO_CONTENT), "status:2xx"),
            (Outcome::Answered(StatusCode::NOT_MODIFIED), "status:3xx"),
            (Outcome::Answered(StatusCode::NOT_FOUND), "status:4xx"),
            (Outcome::Answered(StatusCode::BAD_GATEWAY), "status:5xx"),
            (Outcome::Answered(StatusCode::from_u16(999).expect("a status")), "status:5xx"),
            (Outcome::Failed, "status:failed"),
            (Outcome::Panicked, "status:failed"),
            (Outcome::Aborted, "status:aborted"),
        ] {
            assert_eq!(status_place(outcome).map(|place| STATUSES[place]), Some(name));
        }
    }
}
