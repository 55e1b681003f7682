use crate::error::Error;
use crate::log::unwind::catch_panic;
use crate::time::Timestamp;
use crate::visitor::{Salting, Salts};
use crate::visits::store::Store;

/// Shares the visitor salts with other instances.
#[derive(Debug)]
pub(super) struct Sharing {
    salting: Salting,
    failing: bool,
}

impl Sharing {
    pub(super) const fn new(salting: Salting) -> Self {
        Self { salting, failing: false }
    }

    /// Requests the salts that are due at `now` from the store. If this fails, the next call will retry; in
    /// the meantime, this process uses a local salt.
    pub(super) async fn share(&mut self, store: &dyn Store, now: Timestamp) {
        let mut shared = catch_panic(share(&self.salting.rotating, store, now)).await;
        if shared.is_ok() {
            shared = catch_panic(share(&self.salting.stable, store, now)).await;
        }
        match (std::mem::replace(&mut self.failing, shared.is_err()), shared) {
            (false, Err(error)) => {
                tracing::warn!(
                    ?error,
                    "the visitor salt cannot be shared; other instances may count the same visitors again"
                );
            }
            (true, Ok(())) => tracing::info!("the visitor salt is shared"),
            (false, Ok(())) | (true, Err(_)) => {}
        }
    }
}

async fn share(salts: &Salts, store: &dyn Store, now: Timestamp) -> Result<(), Error> {
    while let Some(offer) = salts.due(now) {
        let salt = store.salt(offer.epoch, offer.candidate, offer.expiry).await?;
        salts.adopt(offer.epoch, salt);
    }
    Ok(())
}
