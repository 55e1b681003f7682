//! Audits and repairs of an archive: an audit finds every difference, and a repair counts once.

use std::sync::{Arc, Mutex, MutexGuard};

use counter_core::archive::{Archive, Audit, Side};
use counter_core::stores::StoreFuture;
use counter_core::time::Grid;
use counter_core::visits::store::{ApplyOutcome, Batch, Read, Write};
use counter_core::{Error, ErrorKind, MemoryStore, Store, Timestamp};
use models::{Faults, Task, deeper, explore, interleave, poll_once};
use tokio::task::yield_now;

use crate::archive::{archive, hit, hour, near_grid, page_counter, samples};
use crate::intercepted_store::{Hooks, InterceptedStore};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The near store does not receive a request.
    LostRequest,
    /// The near store replies, but the reply is lost.
    LostReply,
    /// The reply is lost, and the request arrives later, or never.
    LateRequest,
    /// A process ends during a repair.
    Crash,
    /// A hit in a repaired hour arrives during a repair.
    Hit,
}

const FAULTS: [(Fault, usize); 5] = [
    (Fault::LostRequest, 1),
    (Fault::LostReply, 1),
    (Fault::LateRequest, 1),
    (Fault::Crash, 1),
    (Fault::Hit, 1),
];

#[derive(Debug)]
struct World {
    faults: Faults<Fault>,
    late: Vec<Batch>,
}

/// The near store. A repair stops before each write, so that another repair can continue.
#[derive(Clone, Debug)]
struct Near(Arc<Mutex<World>>);

impl Near {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no panic")
    }
}

impl Hooks for Near {
    fn apply<'a>(&'a self, store: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            yield_now().await;
            // Questions about the position change nothing, so we can always answer them.
            let fault = match batch.hits() {
                0 => None,
                _ => self.world().faults.choose("a repair", |fault| {
                    matches!(fault, Fault::LostRequest | Fault::LostReply | Fault::LateRequest)
                }),
            };
            if fault == Some(Fault::LateRequest) {
                self.world().late.push(batch.clone());
            }
            if matches!(fault, Some(Fault::LostRequest | Fault::LateRequest)) {
                return Err(Error::new(ErrorKind::Unavailable));
            }
            let outcome = store.apply(batch).await;
            if fault == Some(Fault::LostReply) { Err(Error::new(ErrorKind::Unavailable)) } else { outcome }
        })
    }
}

/// Hours of the hits before now. They stay in the near store for the whole run.
const HOURS: [u64; 2] = [5, 6];

/// Returns the start of an hour before the current hour.
fn start(now: Timestamp, hours: u64) -> Timestamp {
    hour().bucket(now.minus(3600 * hours)).start
}

fn grid() -> Arc<Grid> {
    Arc::new(near_grid(24))
}

/// Adds a number of hits in each hour.
async fn add(near: &impl Store, now: Timestamp, hits: [u64; 2]) {
    for (hours, hits) in HOURS.into_iter().zip(hits) {
        for _ in 0..hits {
            hit(near, &grid(), start(now, hours)).await;
        }
    }
}

/// Returns a far store that has copied these hits.
async fn copied(now: Timestamp, hits: [u64; 2]) -> MemoryStore {
    let (near, far) = (MemoryStore::new(), MemoryStore::new());
    add(&near, now, hits).await;
    let archive = archive(near, far.clone());
    archive.copier(&grid()).copy_once(now).await.expect("memory accepts everything");
    far
}

async fn audit(archive: &Archive, now: Timestamp, source: Option<Side>) -> Result<Audit, Error> {
    archive.auditor(&grid()).audit(now, source).await
}

/// Returns the hits by hour, as added.
async fn hits(store: &impl Store, now: Timestamp) -> [u64; 2] {
    let samples = samples(store).await;
    HOURS.map(|hours| {
        let start = start(now, hours).as_unix();
        samples.iter().find(|(at, _)| *at == start).map_or(0, |(_, count)| *count)
    })
}

/// Two hours with up to two hits in each store, and a repair from either store. The audit reports each hour
/// in which the near store has fewer hits, and copies each in which it has more. After a repair, both stores
/// have the same hits.
#[test]
fn an_audit_finds_every_difference() {
    explore("audits", async |choices| {
        let now = Timestamp::now();
        let [near_hits, far_hits] = [(); 2].map(|()| [(); 2].map(|()| choices.among(3) as u64));
        choices.note(format!("{near_hits:?} {far_hits:?}"));
        let (near, far) = (MemoryStore::new(), copied(now, far_hits).await);
        add(&near, now, near_hits).await;
        let archive = archive(near.clone(), far.clone());
        let found = audit(&archive, now, None).await.expect("memory can be read");
        let pairs: Vec<_> = near_hits.into_iter().zip(far_hits).collect();
        let count = |is: fn(&(u64, u64)) -> bool| pairs.iter().copied().filter(is).count() as u64;
        assert_eq!(found.compared, count(|(near, far)| near + far > 0));
        assert_eq!(
            (found.differing, found.late),
            (count(|(near, far)| near < far), count(|(near, far)| near > far))
        );
        let source = choices.one_of(&[Side::Near, Side::Far]);
        audit(&archive, now, Some(source)).await.expect("memory accepts everything");
        let expected = [0, 1].map(|hour| match source {
            Side::Near => near_hits[hour],
            Side::Far => near_hits[hour].max(far_hits[hour]),
        });
        assert_eq!((hits(&near, now).await, hits(&far, now).await), (expected, expected));
    });
}

/// The near store has lost two hits of an hour and one of another, and at most one new hit. Two repairs
/// overlap at each write of the near store. Two of these faults: a write or its reply is lost, a write is
/// late, a process ends, a hit arrives. After a last repair, the near store has all hits of the far store,
/// and at most the new hits in addition.
#[test]
fn concurrent_repairs_count_once() {
    const LOST: [u64; 2] = [2, 1];
    explore("repairs", async |choices| {
        let now = Timestamp::now();
        let far = copied(now, LOST).await;
        let faults = Faults::new(choices, &FAULTS, deeper(2));
        let hooks = Near(Arc::new(Mutex::new(World { faults, late: Vec::new() })));
        let near = InterceptedStore::new(hooks.clone());
        let mut new = choices.among(2) as u64;
        add(&near.inner, now, [new, 0]).await;
        let archives = [(); 2].map(|()| archive(near.clone(), far.clone()));
        let repairs = archives
            .each_ref()
            .map(|archive| -> Task<'_, _> { Box::pin(audit(archive, now, Some(Side::Far))) });
        interleave(choices, repairs, |_| {
            let late = hooks.world().late.pop_if(|_| choices.among(2) == 1);
            if let Some(late) = late {
                choices.note("the late request arrives");
                let _ = poll_once(near.inner.apply(&late));
            }
            let fault =
                hooks.world().faults.choose("a process", |fault| matches!(fault, Fault::Crash | Fault::Hit));
            if fault == Some(Fault::Hit) {
                new += 1;
                let _ = poll_once(add(&near.inner, now, [1, 0]));
            }
            fault == Some(Fault::Crash)
        })
        .await;
        hooks.world().faults.end();
        audit(&archives[0], now, Some(Side::Far)).await.expect("no faults are left");
        let late = std::mem::take(&mut hooks.world().late);
        for batch in &late {
            near.inner.apply(batch).await.expect("memory accepts everything");
        }
        let repaired = hits(&near.inner, now).await;
        let (least, most) = (LOST, [LOST[0] + new, LOST[1]]);
        assert!(repaired >= least && repaired[0] <= most[0] && repaired[1] == most[1], "{repaired:?}");
        let lifetime = near.inner.lifetimes(&[page_counter()]).await.expect("memory can be read").remove(0);
        let lifetimes = repaired.iter().sum::<u64>()..=most.iter().sum();
        assert!(
            lifetime.as_ref().is_ok_and(|lifetime| lifetimes.contains(lifetime)),
            "{lifetime:?} {repaired:?}"
        );
        assert_eq!(audit(&archives[0], now, None).await.expect("no faults are left").differing, 0);
    });
}
