use super::label::NotedValue;
use super::registry::{Counter, Hit};
use crate::time::Timestamp;
use crate::visits::distribution::Bin;
use crate::visits::ledger::Agent;

/// A request that counts on the total counter and on a page counter.
///
/// ```
/// use std::time::Duration;
/// use counter_core::visits::{Agent, Bin, Measure, PageHit};
/// use counter_core::{Counters, MemoryStore, Precision, Precisions, Timestamp};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hour = Precision::HOUR;
/// let mut counters = Counters::builder(MemoryStore::new()).distributions(Precisions::new([hour])?).build()?;
/// let recorder = counters.recorder();
/// recorder.page_hit(PageHit {
///     page: Some(recorder.counter("/")),
///     others: &[recorder.counter("method:GET")],
///     bins: &[Bin::time(Duration::from_millis(20)), Bin::status(200)],
///     ..PageHit::new(recorder.counter("hits").hit(), Agent::Human)
/// });
/// counters.flush().await?;
///
/// let (stats, names) = (counters.stats(), ["hits", "/", "method:GET"].map(|name| name.parse().expect("a name")));
/// assert_eq!(stats.lifetimes(&names).await?, [1, 1, 1]);
/// assert_eq!(recorder.ledger().requests.recorded, 1);
/// let day = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
/// let times = stats.distribution(&names[..2], hour, day, Measure::Time).await?;
/// assert_eq!(times.merged().count(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageHit<'a> {
    /// Hit on the total counter.
    pub hit: Hit,
    /// Page counter, which gets the same hit.
    pub page: Option<Counter>,
    /// More counters that get this hit, but without the visitor.
    pub others: &'a [Counter],
    /// Values of [labels](crate::visits::LabelValues) of the same recorder, which get this hit, but the visitor only if the
    /// label counts [people](crate::visits::LabelValues::people). If a label counts pairs, the pair with the page gets the hit
    /// without the visitor.
    pub labels: &'a [NotedValue],
    /// Bins to add to the distributions of the total counter and of the page, at most one per
    /// [`Measure`](crate::visits::Measure). The weight of the hit does not apply here. Ignored without
    /// [`Builder::distributions`](crate::Builder::distributions).
    pub bins: &'a [Bin],
    /// Client that made the request.
    pub agent: Agent,
    /// Set if a person saw the page. The hit then also counts as a view of the page and of the total, in
    /// [counters of views](crate::CounterName::views), by the hour and coarser precisions. This is a hit of its own in
    /// the [ledger](crate::Ledger).
    pub is_view: bool,
    /// The request counts before this instant: see
    /// [`Recorder::request_until`](crate::Recorder::request_until).
    pub until: Timestamp,
}

impl PageHit<'_> {
    /// Creates a hit without a page by this agent, at the current time.
    #[must_use]
    pub const fn new(hit: Hit, agent: Agent) -> Self {
        Self {
            hit,
            page: None,
            others: &[],
            labels: &[],
            bins: &[],
            agent,
            is_view: false,
            until: Timestamp::MAX,
        }
    }
}
