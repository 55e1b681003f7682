//! Runs the steps of concurrent readers and writers in every possible order.
//!
//! A reader takes the lease, reads the database, and stores the copy. A writer writes to the database and
//! then updates the cache. However, the copy can be evicted at any time.

use std::time::Duration;

use counter_core::MemoryStore;
use counter_core::entity::store::{EntityCopy, EntityFound, EntityLease, EntityRow};
use counter_core::entity::{Entity, EntityCache, EntityDatabase, EntityId};
use counter_core::unstable::SqliteDatabase;
use tests::RedisServer;

use super::Post;
use crate::stores::without_scripts;
use crate::support::store;

/// A participant of a race.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Actor {
    Reader,
    Writer,
    Evictor,
}

/// Progress of an actor, with the data to be used in the next step.
struct Progress {
    actor: Actor,
    lease: EntityLease,
    step: u8,
    read: Vec<EntityRow>,
    wrote: Option<EntityRow>,
}

impl Progress {
    fn new(actor: Actor, token: u64) -> Self {
        let lease = EntityLease { token, ttl: Duration::from_secs(60) };
        Self { actor, lease, step: 0, read: Vec::new(), wrote: None }
    }

    async fn advance(
        &mut self,
        database: &impl EntityDatabase,
        cache: &impl EntityCache,
        evict: &impl AsyncFn(EntityId),
        id: EntityId,
    ) {
        match (self.actor, self.step) {
            (Actor::Reader, 0) => drop(lookup(cache, id, self.lease).await),
            (Actor::Reader, 1) => {
                self.read = database.read("post", &[id], Post::FIELDS).await.expect("readable");
            }
            (Actor::Reader, _) => {
                let row = |name| self.read.iter().find(|row| row.field == name).map(|row| row.row);
                let fields = Post::FIELDS.iter().map(|name| (*name, row(*name).unwrap_or_default()));
                let copy = EntityCopy { id, fields: fields.collect(), ttl: Duration::from_secs(60) };
                cache.store("post", &[copy], self.lease).await.expect("writable");
            }
            (Actor::Writer, 0) => {
                let row = database.increment("post", id, "likes", 1).await.expect("it counts");
                self.wrote = Some(EntityRow { id, field: "likes", row });
            }
            (Actor::Writer, _) => {
                let change = self.wrote.expect("the first step");
                cache.update("post", &[change]).await.expect("writable");
            }
            (Actor::Evictor, _) => evict(id).await,
        }
        self.step += 1;
    }
}

async fn lookup(cache: &impl EntityCache, id: EntityId, lease: EntityLease) -> EntityFound {
    let found = cache.read("post", &[id], Post::FIELDS, lease).await.expect("readable");
    found.into_iter().next().expect("one")
}

/// Returns the possible orders for actors with these numbers of remaining steps, as actor indices.
fn orders(left: &[u8]) -> Vec<Vec<usize>> {
    if left.iter().all(|steps| *steps == 0) {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for place in (0..left.len()).filter(|place| left[*place] > 0) {
        let mut rest = left.to_vec();
        rest[place] -= 1;
        all.extend(orders(&rest).into_iter().map(|order| [vec![place], order].concat()));
    }
    all
}

/// Generates unused ids.
struct Ids(u64);

impl Ids {
    fn next(&mut self) -> EntityId {
        self.0 += 1;
        self.0.into()
    }
}

/// Checks each order of these actors: if there is a cached copy, it must match the database.
async fn check(cache: &impl EntityCache, evict: &impl AsyncFn(EntityId), ids: &mut Ids, actors: &[Actor]) {
    let database = SqliteDatabase::in_memory().await.expect("enough memory");
    let steps = |actor: &Actor| match actor {
        Actor::Reader => 3,
        Actor::Writer => 2,
        Actor::Evictor => 1,
    };
    let orders = orders(&actors.iter().map(steps).collect::<Vec<_>>());
    let mut warm = 0;
    for order in &orders {
        // Start with or without an existing row.
        for begun in [false, true] {
            let id = ids.next();
            if begun {
                database.increment("post", id, "likes", 10).await.expect("it counts");
            }
            let mut progress: Vec<_> =
                actors.iter().zip(1..).map(|(actor, token)| Progress::new(*actor, token)).collect();
            for &place in order {
                progress[place].advance(&database, cache, evict, id).await;
            }
            let lease = EntityLease { token: 99, ttl: Duration::from_secs(60) };
            if let EntityFound::Warm(counts) = lookup(cache, id, lease).await {
                let rows = database.read("post", &[id], &["likes"]).await.expect("readable");
                let truth = rows.first().map(|row| row.row.value).unwrap_or_default();
                assert_eq!(counts, [0, truth], "{actors:?} in the order {order:?}, begun: {begun}");
                warm += 1;
            }
        }
    }
    assert!(warm > 0, "{actors:?}: no order leaves a copy");
}

async fn check_all(cache: &impl EntityCache, evict: impl AsyncFn(EntityId)) {
    use Actor::{Evictor, Reader, Writer};
    let ids = &mut Ids(0);
    check(cache, &evict, ids, &[Reader, Writer]).await;
    check(cache, &evict, ids, &[Reader, Writer, Evictor]).await;
    check(cache, &evict, ids, &[Reader, Writer, Writer]).await;
    check(cache, &evict, ids, &[Reader, Reader, Writer]).await;
}

#[tokio::test]
async fn no_order_of_reads_and_writes_leaves_a_stale_copy_in_memory() {
    let cache = MemoryStore::new();
    check_all(&cache, async |id| cache.invalidate("post", &[id]).await.expect("writable")).await;
}

#[tokio::test]
async fn no_order_of_reads_and_writes_leaves_a_stale_copy_in_redis() {
    let server = RedisServer::start();
    check_all(&store(&server.url()).await, async |id| evict(&server, id)).await;
}

#[tokio::test]
async fn no_order_leaves_a_stale_copy_in_redis_without_scripts() {
    let server = without_scripts();
    check_all(&store(&server.url()).await, async |id| evict(&server, id)).await;
}

/// Removes the copy but not the lease, like a server that is out of memory.
fn evict(server: &RedisServer, id: EntityId) {
    server.command(&["DEL", &format!("access:entity:post:{id}")]);
}
