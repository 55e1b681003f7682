//! The relation of an archive to its near store, which the far store keeps.

use std::time::Duration;

use tokio::time::Instant;

use super::Archive;
use crate::error::{Error, ErrorKind};
use crate::visits::store::identity::{Seen, StoreRecord};
use crate::visits::store::{Store, identity};

/// Result of comparing the near store with the one that the far store was copied from.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    /// The far store is the archive of the near one.
    Own,
    /// It is not; with the reason, and the time at which that was found out.
    Foreign(String, Instant),
}

/// The time after which a far store that was refused is compared again.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

impl Archive {
    /// Checks that the far store is the archive of this near store, and notes in it that it is.
    ///
    /// A far store belongs to the near store that was first copied into it. It is refused if it is the near store itself, and
    /// if its near store is of another kind or namespace, or was in use when this one existed already, unless this one
    /// has the counts of that one by a [restore](crate::dump). A near store that lost all of its data keeps its archive.
    /// Readers, copiers and audits check this by themselves; call it to refuse a wrong configuration at the start.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Refused`] if the far store belongs to another near store, and with other errors if one of
    /// the two stores does not answer.
    pub async fn check(&self) -> Result<(), Error> {
        let Some((near, at)) = identity::read(&*self.near).await? else { return Ok(()) };
        let (kind, mut refused) = (self.near.kind(), None);
        let note = |far: &mut StoreRecord, _| {
            refused = far.refuses_copies_of(&near, &kind);
            if refused.is_none() {
                far.copy(Seen { id: near.id, at }, &kind);
            }
        };
        let far: &dyn Store = &*self.far;
        identity::update(far, note).await?;
        let binding = match &refused {
            None => Binding::Own,
            Some(reason) => Binding::Foreign(reason.clone(), Instant::now()),
        };
        self.state().binding = Some(binding);
        refused.map_or(Ok(()), |reason| Err(refusal(reason)))
    }

    /// Checks once, and again after a minute if the far store was refused: see [`check`](Self::check).
    pub(super) async fn check_once(&self) -> Result<(), Error> {
        let binding = self.state().binding.clone();
        match binding {
            Some(Binding::Own) => Ok(()),
            Some(Binding::Foreign(reason, since)) if since.elapsed() < RETRY_INTERVAL => Err(refusal(reason)),
            Some(Binding::Foreign(..)) | None => self.check().await,
        }
    }

    /// Returns whether the far store was refused.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.state().binding, Some(Binding::Foreign(..)))
    }
}

fn refusal(reason: String) -> Error {
    Error::new(ErrorKind::Refused).caused_by(reason)
}
