//! The settings of a layer.

pub(super) mod delivery;
pub(super) mod facet;
pub(super) mod ignore;
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
use ignore::Ignore;
use page::Pages;
use setup::Setup;

/// Settings of a layer, shared by all services.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) identity: Identity,
    pub(crate) user_agents: Arc<UserAgents>,
    /// Takes precedence over the user agent.
    pub(crate) classify_agent: Option<Arc<ClassifyAgent>>,
    pub(crate) bots_are_visitors: bool,
    /// Requests that do not count.
    pub(crate) ignore: Option<Arc<[Ignore]>>,
    pub(crate) pages: Option<Arc<Pages>>,
    /// Returns the route template, instead of axum.
    pub(crate) matched_path: Option<Arc<MatchedPath>>,
    pub(crate) fallback: Option<Arc<Fallback>>,
    pub(crate) facets: Option<Arc<Facets>>,
    pub(crate) views: bool,
    pub(crate) labels: Option<Arc<Labels>>,
    /// The measures to record as distributions.
    pub(crate) measures: Option<Measures>,
    pub(crate) count_if: Option<Arc<CountIf>>,
    pub(crate) on_count: Option<Arc<OnCount>>,
    pub(crate) count_on_request: bool,
    pub(crate) delivery: Delivery,
    pub(crate) setup: Arc<Setup>,
    /// True if a warning about a reserved name was already logged.
    pub(crate) logged_reserved: Arc<AtomicBool>,
}

impl Settings {
    /// Returns `true` if the request must be checked before the visitor can be identified.
    pub(crate) fn needs_precheck(&self) -> bool {
        self.classify_agent.is_some() || self.ignore.is_some() || self.excludes_prefetch()
    }

    /// Returns `true` if data must be kept until the request ends.
    pub(crate) const fn needs_extra(&self) -> bool {
        self.on_count.is_some() || self.labels.is_some() || self.views
    }

    /// Returns `true` if there is more to do at the end of a request than to record a page hit.
    pub(crate) const fn needs_completion(&self) -> bool {
        let waits = matches!(self.delivery, Delivery::BeforeResponse { .. });
        let has_others = self.facets.is_some() || self.labels.is_some();
        self.measures.is_some() || self.count_if.is_some() || has_others || waits
    }

    pub(crate) fn excludes_prefetch(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.exclude_prefetch())
    }
}

/// A closure to classify clients as bots or humans.
pub(crate) type ClassifyAgent = Closure<dyn Fn(&RequestHead<'_>) -> Agent + Send + Sync>;

/// A closure to find the template of the matched route.
pub(crate) type MatchedPath = Closure<dyn for<'a> Fn(&RequestHead<'a>) -> Option<&'a str> + Send + Sync>;

/// A closure to find a counter if no rule or route matched.
pub(crate) type Fallback = Closure<dyn Fn(&RequestHead<'_>) -> Option<Counter> + Send + Sync>;

/// A closure to select the outcomes to count.
pub(crate) type CountIf = Closure<dyn Fn(Outcome) -> bool + Send + Sync>;
