use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};

use counter_core::visits::NotedValue;
use http::HeaderValue;

use super::seen::Classified;
use super::visit::CountAction;
use crate::label::LateHead;

/// Request data that is rarely needed. It is boxed to keep requests small.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// The cookie to set in the response.
    pub(super) cookie: Option<HeaderValue>,
    /// The action to run when the request is counted.
    pub(super) then: Option<CountAction>,
    pub(super) call: Option<NewCall>,
    pub(super) confirmation: Option<Confirmation>,
    /// The label values. The memory is reused.
    pub(super) labels: Vec<NotedValue>,
    /// The values of labels of views, if all of them are known when the request arrives. The memory is reused.
    pub(super) of_view: Vec<NotedValue>,
    /// Set if a label depends on the response.
    pub(super) late: Option<LateHead>,
    /// True if no rule matches, so that the request only counts if the page is missing.
    pub(super) is_unmatched: bool,
}

/// Boxes to be reused by later requests, because with labels all requests need a box. These are the boxes that do not fit
/// into [`SPARE`].
#[derive(Debug, Default)]
pub(super) struct ExtraPool(Mutex<Boxes>);

thread_local! {
    /// A box of an earlier request that ended on this thread, so that the next request does not need a lock.
    static SPARE: Cell<Option<Box<Extra>>> = const { Cell::new(None) };
}

#[allow(clippy::vec_box, reason = "the boxes are reused")]
type Boxes = Vec<Box<Extra>>;

/// Maximum number of boxes to keep.
const MAX_POOLED_BOXES: usize = 1024;

/// A call to a gRPC method that does not have a counter yet. We only register it if the method exists, since
/// clients can call any number of methods.
#[derive(Debug)]
pub(super) struct NewCall {
    pub(super) method: Box<str>,
    /// The classification of the request.
    pub(super) seen: Classified,
}

/// Completes when the hits are stored, or on timeout.
pub(super) struct Confirmation(pub(super) Pin<Box<dyn Future<Output = bool> + Send>>);

impl Extra {
    /// Returns `true` if this is needed to handle the response.
    #[inline]
    pub(super) const fn has_response_part(&self) -> bool {
        self.cookie.is_some() || self.call.is_some()
    }

    /// Returns `true` if labels depend on the response.
    #[inline]
    pub(super) const fn has_late(&self) -> bool {
        self.late.is_some() || !self.of_view.is_empty()
    }

    /// Returns `true` if nothing of this is needed after the request was counted.
    const fn is_done(&self) -> bool {
        let Self { cookie, then, call, confirmation, labels: _, of_view: _, late: _, is_unmatched: _ } = self;
        cookie.is_none() && then.is_none() && call.is_none() && confirmation.is_none()
    }
}

impl ExtraPool {
    /// Returns a box to write labels to.
    pub(super) fn take(&self) -> Box<Extra> {
        // A thread that is about to exit may already have dropped its spare box.
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        spare.unwrap_or_else(|| self.lock().pop().unwrap_or_default())
    }

    /// Keeps the box of a counted request, unless the request still needs it.
    #[inline(always)]
    pub(super) fn recycle(&self, extra: &mut Option<Box<Extra>>) {
        let Some(mut extra) = extra.take_if(|extra| extra.is_done()) else { return };
        extra.labels.clear();
        extra.of_view.clear();
        (extra.late, extra.is_unmatched) = (None, false);
        if let Ok(Some(extra)) = SPARE.try_with(|spare| spare.replace(Some(extra))) {
            let mut boxes = self.lock();
            if boxes.len() < MAX_POOLED_BOXES {
                boxes.push(extra);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Boxes> {
        self.0.lock().expect("the lock is never poisoned")
    }
}

impl fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confirmation")
    }
}
