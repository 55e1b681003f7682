//! The binding of a far store to a near store, as recorded in the far store.

use std::time::Duration;

use tokio::time::Instant;

use super::Archive;
use crate::error::{Error, ErrorKind};
use crate::visits::store::identity::{StoreRecord, StoreUse};
use crate::visits::store::{Store, identity};

/// Result of comparing the near store with the store that the far store was copied from.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    /// The far store is the archive of the near store.
    Own,
    /// The far store belongs to another store. Contains the reason, and the time of the check.
    Foreign(String, Instant),
}

/// Time to wait before rechecking a rejected far store.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

impl Archive {
    /// Checks that the far store is the archive of this near store, and binds the far store to it.
    ///
    /// A far store belongs to the near store from which it was first copied. It is rejected if it is the near
    /// store itself. It is also rejected if the original near store has a different kind or namespace, or was
    /// still in use when this near store already existed, unless the counts of the original were
    /// [restored](crate::dump) into this store. If a near store loses all data, the archive can still be
    /// used. You can call this at startup to detect a wrong configuration; readers, copiers and audits also
    /// check it.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Rejected`] if the far store belongs to another near store, and with other
    /// errors if one of the two stores is unavailable.
    pub async fn check(&self) -> Result<(), Error> {
        let Some((near, at)) = identity::read(&*self.near).await? else { return Ok(()) };
        let (kind, mut rejected) = (self.near.info().kind, None);
        let note = |far: &mut StoreRecord, _| {
            rejected = far.copy_rejection(&near, &kind);
            if rejected.is_none() {
                far.copy(StoreUse { id: near.id, at }, &kind);
            }
        };
        let far: &dyn Store = &*self.far;
        identity::update(far, note).await?;
        self.note_reply();
        let binding = match &rejected {
            None => Binding::Own,
            Some(reason) => Binding::Foreign(reason.clone(), Instant::now()),
        };
        self.state().binding = Some(binding);
        rejected.map_or(Ok(()), |reason| Err(rejection(reason)))
    }

    /// Like [`check`](Self::check), but caches the result: forever on success, or for a minute if the far
    /// store was rejected.
    pub(super) async fn check_once(&self) -> Result<(), Error> {
        let binding = self.state().binding.clone();
        match binding {
            Some(Binding::Own) => Ok(()),
            Some(Binding::Foreign(reason, since)) if since.elapsed() < RETRY_INTERVAL => {
                Err(rejection(reason))
            }
            Some(Binding::Foreign(..)) | None => self.check().await,
        }
    }

    /// Returns `true` if the far store was rejected.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.state().binding, Some(Binding::Foreign(..)))
    }
}

fn rejection(reason: String) -> Error {
    Error::new(ErrorKind::Rejected).caused_by(reason)
}
