use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};

use http::HeaderValue;

use super::seen::Seen;
use super::visit::Then;
use crate::label::Noted;

/// The part of a request that few have; all others are moved without the room for it.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// The cookie to set in the response.
    pub(super) cookie: Option<HeaderValue>,
    /// The action to run when the request has counted.
    pub(super) then: Option<Then>,
    pub(super) call: Option<NewCall>,
    pub(super) confirmation: Option<Confirmation>,
    /// The values of labels, where some are chosen.
    pub(super) labels: Noted,
}

/// The room of requests that are over, for those to come: with labels, each needs it.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Boxes>);

#[allow(clippy::vec_box, reason = "the boxes are what is kept")]
type Boxes = Vec<Box<Extra>>;

/// The number of requests whose room is kept.
const MOST_SPARE: usize = 1024;

/// A call of gRPC by a method that has no counter yet. It gets one if the method turns out to exist: clients can
/// ask for any number of methods.
#[derive(Debug)]
pub(super) struct NewCall {
    pub(super) method: Box<str>,
    /// The decision about the request.
    pub(super) seen: Seen,
}

/// Completes when the store has the hits of a request, or there was no time for it.
pub(super) struct Confirmation(pub(super) Pin<Box<dyn Future<Output = bool> + Send>>);

impl Spare {
    pub(super) fn take(&self) -> Box<Extra> {
        self.lock().pop().unwrap_or_default()
    }

    pub(super) fn put(&self, mut extra: Box<Extra>) {
        // What the closure of somebody holds may take its time when it is dropped.
        *extra = Extra::default();
        let mut spare = self.lock();
        if spare.len() < MOST_SPARE {
            spare.push(extra);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Boxes> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confirmation")
    }
}
