use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use counter_core::archive::{Archive, Copier};
use counter_core::time::{Grid, Retention};
use counter_core::{Precisions, SqlStore, Store, Timestamp};
use tempfile::TempDir;
use tests::{until, within};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::LIMIT;
use super::record::{ARCHIVED, Record, precisions};
use crate::random::Random;
use crate::stores;
use crate::support::precision;

/// A far store for seconds, copied during the storm. Hours would still be open when the storm ends.
#[derive(Debug)]
pub(crate) struct Archiving {
    far: SqlStore,
    _folder: TempDir,
}

/// A copier that is interrupted in the middle of passes.
#[derive(Debug)]
pub(crate) struct Copying {
    copying: JoinHandle<Copier>,
    passes: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
}

impl Archiving {
    pub(crate) async fn start() -> Self {
        let (folder, far) = stores::sqlite().await;
        Self { far, _folder: folder }
    }

    /// Returns a store with this archive. Cleaners will retain samples until they are copied.
    pub(crate) fn of(&self, near: impl Store) -> Archive {
        let seconds = Retention { precision: precision(ARCHIVED), samples: NonZeroU32::MAX };
        let retained = Precisions::new([seconds]).expect("a set");
        Archive::new(near, self.far.clone()).keep(Grid {
            counts: retained.clone(),
            visitors: retained,
            ..Grid::default()
        })
    }

    pub(crate) fn copy(&self, near: impl Store, random: Random) -> Copying {
        let done = Arc::<AtomicBool>::default();
        let passes = Arc::<AtomicU64>::default();
        let copier = self.of(near).copier(&grid()).lateness(Duration::from_secs(1));
        let copying = tokio::spawn(copy(copier, random, Arc::clone(&passes), Arc::clone(&done)));
        Copying { copying, passes, done }
    }

    /// Copies the rest, and checks that there are no differences and that everything recorded can be found.
    pub(crate) async fn compare(
        &self,
        near: impl Store,
        record: &Record,
        copying: Copying,
        began: Timestamp,
    ) {
        until("there were passes", LIMIT, async || copying.passes.load(Ordering::Relaxed) > 3).await;
        copying.done.store(true, Ordering::Relaxed);
        let mut copier = within(LIMIT, copying.copying).await.expect("it ends").expect("no panic");
        let (archive, last) = (self.of(near), Timestamp::now());
        until("all has closed and is copied", LIMIT, async || {
            let now = Timestamp::now();
            copier.copy_once(now).await.is_ok() && now > last.plus(2)
        })
        .await;
        let mut auditor = archive.auditor(&grid());
        let audit = auditor.audit(Timestamp::now(), None).await.expect("both stores are available");
        assert!(audit.compared > 0 && audit.unreadable == 0, "{audit:?}");
        assert_eq!((audit.differing, audit.differences), (0, Vec::new()));
        record.compare_seconds(&archive, began).await;
    }
}

/// Returns the grid of the instances.
fn grid() -> Grid {
    Grid { counts: precisions(), ..Grid::default() }
}

async fn copy(
    mut copier: Copier,
    mut random: Random,
    passes: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
) -> Copier {
    while !done.load(Ordering::Relaxed) {
        let pass = copier.copy_once(Timestamp::now());
        // We need a timeout in case the server is unavailable. We also interrupt some passes on purpose, but
        // only some of them, otherwise a slow machine would be unable to complete any.
        let time = if random.among(0..3) == 0 { LIMIT } else { random.millis(1..400) };
        if let Ok(Ok(_)) = timeout(time, pass).await {
            passes.fetch_add(1, Ordering::Relaxed);
        }
        sleep(random.millis(1..100)).await;
    }
    copier
}
