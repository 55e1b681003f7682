//! Contract tests for any cache.

use std::time::Duration;

use counter_core::entity::store::{EntityAudit, EntityCopy, EntityFound, EntityLease, EntityRow};
use counter_core::entity::{Entity, EntityCache, EntityId, Versioned};
use tests::until;

use super::Post;
use crate::stores;

stores::on! {
    [memory redis redis_without_scripts cluster]
    {
        only_one_reader_of_a_cold_entity_gets_the_lease
        a_copy_is_stored_only_by_the_lease_holder
        a_change_ends_the_lease_and_keeps_a_cold_entity_cold
        the_latest_change_wins_in_any_order
        a_copy_without_all_fields_is_cold
        a_copy_expires_even_if_it_is_changed
        leases_copies_and_locks_can_last_forever
        an_audit_removes_only_differing_copies
        an_audit_keeps_copies_newer_than_the_rows
        invalidation_removes_the_copy_and_the_lease
        a_lock_has_one_owner_and_can_be_renewed_or_released
        entities_are_returned_in_request_order
        counts_keep_full_precision
    }
}

const HOUR: Duration = Duration::from_secs(3600);

fn lease(token: u64) -> EntityLease {
    EntityLease { token, ttl: HOUR }
}

async fn lookup(cache: &impl EntityCache, id: u64, token: u64) -> EntityFound {
    let found = cache.read("post", &[id.into()], Post::FIELDS, lease(token)).await;
    found.expect("readable").pop().expect("one")
}

fn copy(id: u64, views: (i64, u64), likes: (i64, u64)) -> EntityCopy {
    let row = |(value, version)| Versioned { version, value };
    EntityCopy { id: id.into(), fields: vec![("views", row(views)), ("likes", row(likes))], ttl: HOUR }
}

fn change(id: u64, field: &'static str, value: i64, version: u64) -> EntityRow {
    EntityRow { id: id.into(), field, row: Versioned { version, value } }
}

async fn keep(cache: &impl EntityCache, copy: EntityCopy, token: u64) -> u64 {
    cache.store("post", &[copy], lease(token)).await.expect("writable")
}

/// Makes the entity warm.
async fn warm(cache: &impl EntityCache, views: (i64, u64), likes: (i64, u64)) {
    assert_eq!(lookup(cache, 1, 100).await, EntityFound::Cold);
    assert_eq!(keep(cache, copy(1, views, likes), 100).await, 1);
}

async fn only_one_reader_of_a_cold_entity_gets_the_lease(cache: impl EntityCache + Clone) {
    assert_eq!(lookup(&cache, 1, 7).await, EntityFound::Cold);
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Leased);
    assert_eq!(lookup(&cache, 2, 8).await, EntityFound::Cold);
    let other = cache.read("group", &[1.into()], Post::FIELDS, lease(9)).await.expect("readable");
    assert_eq!(other, [EntityFound::Cold]);
}

async fn a_copy_is_stored_only_by_the_lease_holder(cache: impl EntityCache + Clone) {
    assert_eq!(keep(&cache, copy(1, (1, 1), (1, 1)), 7).await, 0);
    assert_eq!(lookup(&cache, 1, 7).await, EntityFound::Cold);
    assert_eq!(keep(&cache, copy(1, (1, 1), (1, 1)), 8).await, 0);
    assert_eq!(keep(&cache, copy(1, (3, 1), (-4, 2)), 7).await, 1);
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Warm(vec![3, -4]));
    // The lease is already used.
    assert_eq!(keep(&cache, copy(1, (9, 9), (9, 9)), 7).await, 0);
}

async fn a_change_ends_the_lease_and_keeps_a_cold_entity_cold(cache: impl EntityCache + Clone) {
    assert_eq!(lookup(&cache, 1, 7).await, EntityFound::Cold);
    cache.update("post", &[change(1, "likes", 5, 5)]).await.expect("writable");
    assert_eq!(keep(&cache, copy(1, (1, 1), (1, 1)), 7).await, 0);
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Cold);
}

async fn the_latest_change_wins_in_any_order(cache: impl EntityCache + Clone) {
    warm(&cache, (1, 1), (5, 5)).await;
    let changes = [change(1, "likes", 6, 6), change(1, "likes", -8, 8), change(1, "likes", 7, 7)];
    for change in &changes {
        cache.update("post", std::slice::from_ref(change)).await.expect("writable");
    }
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Warm(vec![1, -8]));
    let both = [change(1, "likes", 12, 12), change(1, "likes", 11, 11), change(1, "views", 2, 2)];
    cache.update("post", &both).await.expect("writable");
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Warm(vec![2, 12]));
}

async fn a_copy_without_all_fields_is_cold(cache: impl EntityCache + Clone) {
    let id = [EntityId::from(1)];
    let found = cache.read("post", &id, &["views"], lease(7)).await.expect("readable");
    assert_eq!(found, [EntityFound::Cold]);
    let mut views = copy(1, (3, 3), (0, 0));
    views.fields.pop();
    assert_eq!(keep(&cache, views, 7).await, 1);
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Cold);
    // An older program version stores fewer fields, and this copy is complete for that version.
    let found = cache.read("post", &id, &["views"], lease(9)).await.expect("readable");
    assert_eq!(found, [EntityFound::Warm(vec![3])]);
    cache.update("post", &[change(1, "likes", 1, 1)]).await.expect("writable");
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Warm(vec![3, 1]));
}

async fn a_copy_expires_even_if_it_is_changed(cache: impl EntityCache + Clone) {
    assert_eq!(lookup(&cache, 1, 7).await, EntityFound::Cold);
    let short = EntityCopy { ttl: Duration::from_millis(50), ..copy(1, (1, 1), (1, 1)) };
    assert_eq!(keep(&cache, short, 7).await, 1);
    let mut version = 1;
    let gone = async || {
        version += 1;
        cache.update("post", &[change(1, "likes", 1, version)]).await.expect("writable");
        lookup(&cache, 1, version).await == EntityFound::Cold
    };
    until("the copy is removed", tests::LIMIT, gone).await;
}

async fn leases_copies_and_locks_can_last_forever(cache: impl EntityCache + Clone) {
    let lease = EntityLease { token: 7, ttl: Duration::MAX };
    let found = cache.read("post", &[1.into()], Post::FIELDS, lease).await.expect("readable");
    assert_eq!(found, [EntityFound::Cold]);
    let copy = EntityCopy { ttl: Duration::MAX, ..copy(1, (1, 1), (2, 2)) };
    assert_eq!(cache.store("post", &[copy], lease).await.expect("writable"), 1);
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Warm(vec![1, 2]));
    assert!(cache.lock("post", lease).await.expect("the server replies"));
}

async fn an_audit_removes_only_differing_copies(cache: impl EntityCache + Clone) {
    let rows = |views, likes| [change(1, "views", views, 2), change(1, "likes", likes, 2)];
    let audit = async |rows: [EntityRow; 2]| cache.audit("post", &rows).await.expect("readable");
    assert_eq!(audit(rows(1, 1)).await, EntityAudit::default());
    warm(&cache, (1, 2), (1, 2)).await;
    assert_eq!(audit(rows(1, 1)).await, EntityAudit::default());
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Warm(vec![1, 1]));
    assert_eq!(audit(rows(3, 4)).await, EntityAudit { removed: 1, newer: vec![] });
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Cold);
}

async fn an_audit_keeps_copies_newer_than_the_rows(cache: impl EntityCache + Clone) {
    warm(&cache, (1, 2), (5, 3)).await;
    let rows = [change(1, "views", 1, 2), change(1, "likes", 4, 2), change(2, "likes", 4, 2)];
    let audit = cache.audit("post", &rows).await.expect("readable");
    assert_eq!(audit, EntityAudit { removed: 0, newer: vec![change(1, "likes", 5, 3)] });
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Warm(vec![1, 5]));
}

async fn invalidation_removes_the_copy_and_the_lease(cache: impl EntityCache + Clone) {
    warm(&cache, (1, 1), (1, 1)).await;
    assert_eq!(lookup(&cache, 2, 7).await, EntityFound::Cold);
    cache.invalidate("post", &[1.into(), 2.into()]).await.expect("writable");
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Cold);
    assert_eq!(keep(&cache, copy(2, (1, 1), (1, 1)), 7).await, 0);
}

async fn a_lock_has_one_owner_and_can_be_renewed_or_released(cache: impl EntityCache + Clone) {
    let lock = async |token| cache.lock("post", lease(token)).await.expect("the server replies");
    assert!(lock(1).await);
    assert!(!lock(2).await);
    assert!(lock(1).await);
    assert!(cache.lock("group", lease(2)).await.expect("the server replies"));
    cache.unlock("post", lease(2)).await.expect("the server replies");
    assert!(!lock(2).await);
    cache.unlock("post", lease(1)).await.expect("the server replies");
    assert!(
        cache
            .lock("post", EntityLease { token: 2, ttl: Duration::from_millis(20) })
            .await
            .expect("the server replies")
    );
    until("the lock has ended", tests::LIMIT, async || lock(1).await).await;
}

async fn entities_are_returned_in_request_order(cache: impl EntityCache + Clone) {
    let ids: Vec<_> = (0..600_u64).map(EntityId::from).collect();
    let even: Vec<_> = ids.iter().copied().step_by(2).collect();
    let found = cache.read("post", &even, Post::FIELDS, lease(7)).await.expect("readable");
    assert!(found.iter().all(|found| *found == EntityFound::Cold));
    let copies: Vec<_> = (0..600).step_by(2).map(|id| copy(id, (id as i64, 1), (0, 0))).collect();
    assert_eq!(cache.store("post", &copies, lease(7)).await.expect("writable"), 300);
    let found = cache.read("post", &ids, Post::FIELDS, lease(8)).await.expect("readable");
    for (id, found) in found.into_iter().enumerate() {
        let wanted = if id % 2 == 0 { EntityFound::Warm(vec![id as i64, 0]) } else { EntityFound::Cold };
        assert_eq!(found, wanted, "{id}");
    }
}

async fn counts_keep_full_precision(cache: impl EntityCache + Clone) {
    warm(&cache, (i64::MAX, 1), (i64::MIN, 1)).await;
    cache.update("post", &[change(1, "likes", i64::MAX - 1, 2)]).await.expect("writable");
    assert_eq!(lookup(&cache, 1, 8).await, EntityFound::Warm(vec![i64::MAX, i64::MAX - 1]));
}
