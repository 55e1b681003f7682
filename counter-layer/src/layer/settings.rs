//! The settings of a layer.

pub(super) mod delivery;
pub(super) mod facet;
pub(super) mod page;
pub(super) mod setup;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use counter_core::Counter;
use counter_core::visits::Agent;

use super::measures::Measures;
use super::outcome::Outcome;
use super::visit::OnCount;
use crate::classify::UserAgents;
use crate::closure::Closure;
use crate::identity::{Identity, RequestHead};
use crate::label::Labels;
use delivery::Delivery;
use facet::Facets;
use page::Pages;
use setup::Setup;

/// The settings of a layer that are no more than values: all services of the layer share them.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) identity: Identity,
    pub(crate) user_agents: Arc<UserAgents>,
    /// Asked before the user agent is believed.
    pub(crate) classify_agent: Option<Arc<ClassifyAgent>>,
    pub(crate) bots_are_visitors: bool,
    pub(crate) pages: Option<Arc<Pages>>,
    /// Asked for the template of the route in place of axum.
    pub(crate) matched_path: Option<Arc<MatchedPath>>,
    pub(crate) fallback: Option<Arc<Fallback>>,
    pub(crate) facets: Option<Arc<Facets>>,
    pub(crate) labels: Option<Arc<Labels>>,
    /// What distributions are kept of, if any are.
    pub(crate) measures: Option<Measures>,
    pub(crate) count_if: Option<Arc<CountIf>>,
    pub(crate) on_count: Option<Arc<OnCount>>,
    pub(crate) count_on_request: bool,
    pub(crate) delivery: Delivery,
    pub(crate) setup: Arc<Setup>,
    /// A closure that gave a reserved name was logged.
    pub(crate) told_reserved: Arc<AtomicBool>,
}

impl Settings {
    /// Returns whether something is asked before a visitor is told apart.
    pub(crate) fn asks(&self) -> bool {
        self.classify_agent.is_some() || self.excludes_prefetch()
    }

    /// Returns whether something is noted of a request for its end.
    pub(crate) const fn notes(&self) -> bool {
        self.on_count.is_some() || self.labels.is_some()
    }

    /// Returns whether something is asked, recorded or awaited at the end of a request beside its own hits.
    pub(crate) const fn ends(&self) -> bool {
        let waits = matches!(self.delivery, Delivery::BeforeResponse { .. });
        self.measures.is_some() || self.count_if.is_some() || self.has_others() || waits
    }

    pub(crate) fn excludes_prefetch(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.exclude_prefetch())
    }

    /// Returns whether a request has other hits beside its own.
    #[inline]
    pub(crate) const fn has_others(&self) -> bool {
        self.facets.is_some() || self.labels.is_some()
    }
}

/// A closure that tells bots from other clients.
pub(crate) type ClassifyAgent = Closure<dyn Fn(&RequestHead<'_>) -> Agent + Send + Sync>;

/// A closure that finds the template of the route that matched.
pub(crate) type MatchedPath = Closure<dyn for<'a> Fn(&RequestHead<'a>) -> Option<&'a str> + Send + Sync>;

/// A closure that finds the counter of what rules and routes leave.
pub(crate) type Fallback = Closure<dyn Fn(&RequestHead<'_>) -> Option<Counter> + Send + Sync>;

/// A closure that chooses the outcomes that count.
pub(crate) type CountIf = Closure<dyn Fn(Outcome) -> bool + Send + Sync>;
