use counter_core::visits::Agent;
use counter_core::{Counter, Recorder};
use http::Method;

use crate::layer::outcome::Outcome;
use crate::reserved::{AGENTS, METHODS, STATUSES};

/// A breakdown of all requests, in addition to `hits`, as series with fixed names.
///
/// | facet | counters |
/// |---|---|
/// | `Status` | `status:1xx` … `status:5xx`, `status:failed` (an error or a panic of the inner service), `status:aborted` |
/// | `Method` | `method:GET`, `method:HEAD`, `method:POST`, `method:PUT`, `method:DELETE`, `method:OPTIONS`, `method:PATCH`, `method:other` |
/// | `Agent` | `agent:human`, `agent:bot` |
///
/// A counted request is in exactly one counter per facet, so a facet adds up to `hits`. This excludes the status
/// of requests counted on arrival, and what a log or a record does not contain. [Bots](crate::guide::visitors#bots) are recognized by user agent, or via
/// [`classify_agent`](crate::AccessCounterLayer::classify_agent) if set.
///
/// ```
/// # use counter_core::{Counters, MemoryStore};
/// # use counter_layer::{AccessCounterLayer, Facet};
/// # use http::{Request, Response};
/// # use tower::{Layer, ServiceExt, service_fn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut counters = Counters::builder(MemoryStore::new()).build()?;
/// let layer = AccessCounterLayer::new(counters.recorder()).facets([Facet::Method, Facet::Status]);
/// # let page = layer.layer(service_fn(async |_| Ok::<_, std::convert::Infallible>(Response::new(()))));
/// # page.oneshot(Request::get("/").body(())?).await?;
///
/// // After a successful GET request:
/// # counters.flush().await?;
/// let names = ["method:GET", "status:2xx", "status:5xx"].map(|name| name.parse().expect("a valid name"));
/// assert_eq!(counters.stats().lifetimes(&names).await?, [1, 1, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Facet {
    /// The status class.
    Status,
    /// The request method.
    Method,
    /// The kind of client, i.e. bot or human.
    Agent,
}

/// The counters of the enabled facets, resolved in advance.
#[derive(Debug, Default)]
pub(crate) struct Facets {
    status: Option<[Counter; STATUSES.len()]>,
    method: Option<[Counter; METHODS.len()]>,
    agent: Option<[Counter; AGENTS.len()]>,
}

/// Number of facets, and thus the maximum number of facet hits per request.
pub(crate) const FACETS: usize = 3;

const OTHER_METHOD: u8 = 7;

/// The method index of a request whose method was not recorded.
pub(crate) const NO_METHOD: u8 = 8;

impl Facets {
    /// Resolves the chosen facets into counters, or returns `None` if the iterator is empty.
    pub(crate) fn of(recorder: &Recorder, chosen: impl IntoIterator<Item = Facet>) -> Option<Self> {
        let mut facets = None;
        for facet in chosen {
            let Self { status, method, agent } = facets.get_or_insert_default();
            match facet {
                Facet::Status => *status = Some(STATUSES.map(|name| recorder.counter(name))),
                Facet::Method => *method = Some(METHODS.map(|name| recorder.counter(name))),
                Facet::Agent => *agent = Some(AGENTS.map(|name| recorder.counter(name))),
            }
        }
        facets
    }

    /// Returns the index of the method counter, or 0 if this facet is not enabled.
    pub(crate) fn method_index(&self, method: &Method) -> u8 {
        if self.method.is_some() { method_index(method) } else { 0 }
    }

    /// Calls `each` with the counter of the request for every enabled facet.
    pub(crate) fn counters(
        &self,
        outcome: Outcome,
        method_index: u8,
        kind: Agent,
        mut each: impl FnMut(Counter),
    ) {
        let Self { status, method, agent } = self;
        if let (Some(counters), Some(index)) = (status, status_index(outcome)) {
            each(counters[index]);
        }
        if let Some(counters) = method
            && let Some(counter) = counters.get(usize::from(method_index))
        {
            each(*counter);
        }
        match (agent, kind) {
            (Some([human, _]), Agent::Human) => each(*human),
            (Some([_, bot]), Agent::Bot) => each(*bot),
            _ => {}
        }
    }
}

fn status_index(outcome: Outcome) -> Option<usize> {
    match outcome {
        Outcome::Unknown => None,
        Outcome::Responded(status) => Some(usize::from(status.as_u16() / 100).clamp(1, 5) - 1),
        Outcome::Failed | Outcome::Panicked => Some(5),
        Outcome::Aborted => Some(6),
    }
}

fn method_index(method: &Method) -> u8 {
    match *method {
        Method::GET => 0,
        Method::HEAD => 1,
        Method::POST => 2,
        Method::PUT => 3,
        Method::DELETE => 4,
        Method::OPTIONS => 5,
        Method::PATCH => 6,
        _ => OTHER_METHOD,
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn methods_and_outcomes_map_to_one_counter() {
        for (method, name) in [
            (Method::GET, "method:GET"),
            (Method::HEAD, "method:HEAD"),
            (Method::POST, "method:POST"),
            (Method::PUT, "method:PUT"),
            (Method::DELETE, "method:DELETE"),
            (Method::OPTIONS, "method:OPTIONS"),
            (Method::PATCH, "method:PATCH"),
            (Method::CONNECT, "method:other"),
            (Method::TRACE, "method:other"),
            (Method::from_bytes(b"ET").expect("a method"), "method:other"),
        ] {
            assert_eq!(METHODS[usize::from(method_index(&method))], name);
        }
        for (outcome, name) in [
            (Outcome::Responded(StatusCode::SWITCHING_PROTOCOLS), "status:1xx"),
            (Outcome::Responded(StatusCode::NO_CONTENT), "status:2xx"),
            (Outcome::Responded(StatusCode::NOT_MODIFIED), "status:3xx"),
            (Outcome::Responded(StatusCode::NOT_FOUND), "status:4xx"),
            (Outcome::Responded(StatusCode::BAD_GATEWAY), "status:5xx"),
            (Outcome::Responded(StatusCode::from_u16(999).expect("a status")), "status:5xx"),
            (Outcome::Failed, "status:failed"),
            (Outcome::Panicked, "status:failed"),
            (Outcome::Aborted, "status:aborted"),
        ] {
            assert_eq!(status_index(outcome).map(|index| STATUSES[index]), Some(name));
        }
    }
}
