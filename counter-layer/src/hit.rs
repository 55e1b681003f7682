use std::sync::Arc;

use counter_core::{Counter, Recorder, VisitorId};
use http::Request;

use crate::identity::Identity;
use crate::request;

/// What one layer and its services share.
#[derive(Debug)]
pub(crate) struct Counting {
    pub(crate) recorder: Recorder,
    pub(crate) identity: Identity,
    /// The counter of everything.
    pub(crate) hits: Counter,
}

/// A request that is to be counted: it is when this is dropped, so exactly once, whether the response
/// came, the inner service failed or panicked, or nobody waited for it any longer.
#[derive(Debug)]
pub(crate) struct Hit {
    counting: Arc<Counting>,
    page: Option<Counter>,
    visitor: Option<VisitorId>,
}

impl Hit {
    /// Reads what there is to know while the request is still here.
    pub(crate) fn of<B>(counting: &Arc<Counting>, request: &Request<B>) -> Self {
        let extensions = request.extensions();
        Self {
            counting: Arc::clone(counting),
            page: request::route(extensions).map(|route| counting.recorder.counter(route)),
            visitor: counting.identity.visitor(request::peer(extensions), request.headers()),
        }
    }
}

impl Drop for Hit {
    fn drop(&mut self) {
        let Counting { recorder, hits, .. } = &*self.counting;
        let hit = hits.hit().visitor(self.visitor);
        match self.page {
            Some(page) => recorder.request(&[hit, page.hit().visitor(self.visitor)]),
            None => recorder.request(&[hit]),
        }
    }
}
