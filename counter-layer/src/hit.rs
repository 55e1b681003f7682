use std::sync::Arc;

use counter_core::{Counter, Recorder, VisitorId};
use http::Request;

use crate::identity::{RequestHead, Visitors};
use crate::request;

/// What one layer and its services share.
#[derive(Debug)]
pub(crate) struct Counting {
    pub(crate) recorder: Recorder,
    pub(crate) visitors: Visitors,
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
            visitor: counting.visitors.visitor(&RequestHead::of(request)),
        }
    }
}

impl Drop for Hit {
    fn drop(&mut self) {
        let Counting { recorder, hits, .. } = &*self.counting;
        match self.page {
            Some(page) => recorder.request(&[*hits, page], self.visitor),
            None => recorder.request(&[*hits], self.visitor),
        }
    }
}
