//! The interface to the spool. This does nothing if the feature is disabled or a directory isn't configured.

#[cfg(feature = "spool")]
use std::path::Path;
use std::sync::Arc;

use tokio::time::Instant;

use crate::family::shard::Shard;
#[cfg(feature = "spool")]
use crate::visits::spool::Recovery;
#[cfg(feature = "spool")]
use crate::visits::spool::{Spool, folder};
#[cfg(feature = "spool")]
use crate::visits::store::Store;
use crate::visits::store::identity::KnownStore;
#[cfg(feature = "spool")]
use crate::visits::tally::Tally;

/// The spool of a flusher, if enabled, and the record of the current store.
#[derive(Debug, Default)]
pub(crate) struct Durability {
    known: Arc<KnownStore>,
    #[cfg(feature = "spool")]
    spool: Option<(Arc<Spool>, Recovery)>,
}

/// A handle for the flusher of a shard, to write new batches to the spool before sending.
#[derive(Debug)]
pub(super) struct ShardDurability {
    #[cfg(feature = "spool")]
    spool: Option<Arc<Spool>>,
    #[cfg_attr(not(feature = "spool"), expect(dead_code, reason = "nothing is written"))]
    shard: Shard,
}

#[cfg_attr(not(feature = "spool"), expect(clippy::unused_self, reason = "there is no spool"))]
impl Durability {
    /// Creates a spool of at most `max_bytes` in the directory.
    ///
    /// # Errors
    /// Fails if files can't be created in the directory.
    #[cfg(feature = "spool")]
    pub(crate) fn on(
        folder: &Path,
        max_bytes: u64,
        tally: &Arc<Tally>,
        store: &Arc<dyn Store>,
    ) -> std::io::Result<Self> {
        folder::prepare(folder)?;
        let known = Arc::<KnownStore>::default();
        let spool = Spool::new(
            folder.to_owned(),
            max_bytes,
            Arc::clone(tally),
            store.info().kind.into_owned(),
            Arc::clone(&known),
        );
        let spool = Arc::new(spool);
        let recovery = Recovery::new(Arc::clone(tally), Arc::clone(store), Arc::clone(&spool));
        Ok(Self { known, spool: Some((spool, recovery)) })
    }

    /// Returns the record of the current store, which is updated by the flusher and read by the spool.
    pub(super) fn known(&self) -> Arc<KnownStore> {
        Arc::clone(&self.known)
    }

    pub(super) fn of(&self, shard: Shard) -> ShardDurability {
        ShardDurability {
            #[cfg(feature = "spool")]
            spool: self.spool.as_ref().map(|(spool, _)| Arc::clone(spool)),
            shard,
        }
    }

    /// Returns the number of pending hits of ended processes, which are on disk.
    pub(super) fn recovering(&self) -> u64 {
        #[cfg(feature = "spool")]
        if let Some((_, recovery)) = &self.spool {
            return recovery.pending();
        }
        0
    }

    /// Writes new hits to disk, and sends the hits of ended processes. Errors are logged and reported by the
    /// health.
    pub(super) async fn maintain(&mut self) {
        #[cfg(feature = "spool")]
        if let Some((spool, recovery)) = &mut self.spool {
            drop(spool.write(None).await);
            drop(recovery.recover().await);
        }
    }

    /// Writes new hits periodically, and scans for files of ended processes.
    pub(super) async fn maintain_forever(&mut self) {
        #[cfg(feature = "spool")]
        if let Some((spool, recovery)) = &mut self.spool {
            tokio::join!(spool.write_forever(), recovery.recover_forever());
        }
    }

    /// Writes the new hits of all shards to the spool file.
    pub(super) async fn save(&self) {
        #[cfg(feature = "spool")]
        if let Some((spool, _)) = &self.spool {
            drop(spool.write(None).await);
        }
    }

    /// Removes the spool file and the files of ended processes, because the store has all hits.
    pub(super) async fn finish(&mut self, deadline: Instant) {
        #[cfg(feature = "spool")]
        if let Some((spool, recovery)) = &mut self.spool {
            recovery.finish(deadline).await;
            drop(tokio::time::timeout_at(deadline, spool.remove()).await);
        }
        #[cfg(not(feature = "spool"))]
        let _ = deadline;
    }
}

#[cfg_attr(not(feature = "spool"), expect(clippy::unused_self, reason = "there is no spool"))]
impl ShardDurability {
    pub(super) const fn is_on(&self) -> bool {
        #[cfg(feature = "spool")]
        return self.spool.is_some();
        #[cfg(not(feature = "spool"))]
        false
    }

    /// Tries to write new batches to disk. Should be called before sending the batches.
    pub(super) async fn save(&self) {
        #[cfg(feature = "spool")]
        if let Some(spool) = &self.spool {
            spool.save(self.shard).await;
        }
    }
}
