//! Tests for unique counters on multiple cluster nodes.

use counter_core::stores::Shards;
use counter_core::unique::{Distinct, HllUniqueCounter, SetUniqueCounter, UniqueCounter};
use counter_core::visits::store::Read;
use counter_core::{CounterName, RedisStore};
use tests::cluster::RedisCluster;
use tests::until;

use super::contract::{adaptive, count, include, sketch_of};
use crate::support::{listed, name, precision};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_on_different_cluster_nodes_form_one_union() {
    let cluster = RedisCluster::start();
    let store = RedisStore::builder().connect(&cluster.url()).await.expect("an address");
    let there = async || store.known(listed(&[precision(1)], "", 1)).await.is_ok();
    until("the store is connected", tests::LIMIT, there).await;
    let names: Vec<CounterName> = (0..10).map(|n| name(&format!("site {n}"))).collect();
    let sets: Vec<_> = names.iter().map(|name| SetUniqueCounter::new(store.clone(), name.clone())).collect();
    let hlls: Vec<_> = names.iter().map(|name| HllUniqueCounter::new(store.clone(), name.clone())).collect();
    for (n, (set, hll)) in (0_u32..).zip(sets.iter().zip(&hlls)) {
        include(set, n * 50..n * 50 + 100).await;
        include(hll, n * 50..n * 50 + 100).await;
    }
    let shards = Shards::try_from(16).expect("a good number");
    for name in &names {
        let key = format!("{{access:{}}}set:{name}", shards.of(name));
        assert_eq!(cluster.command_on_owner(&key, &["SCARD", &key]).text().as_deref(), Some("100"));
    }
    assert!(cluster.nodes().iter().all(|node| node.int(&["DBSIZE"]) > 0), "every node has some");
    let of_sets: Vec<_> = sets.iter().map(UniqueCounter::key).collect();
    let all = sets[0].union(&of_sets).await.expect("readable");
    assert_eq!(all, Distinct::Exact(550));
    let of_hlls: Vec<_> = hlls.iter().map(UniqueCounter::key).collect();
    let all = hlls[0].union(&of_hlls).await.expect("readable");
    assert_eq!(all.items(), sketch_of(0..550).estimate());
    let adaptive = adaptive(&store, "all", 200);
    adaptive.merge(&[of_sets, of_hlls].concat()).await.expect("the cluster accepts it");
    assert_eq!(count(&adaptive).await.items(), sketch_of(0..550).estimate());

    // The slot moves, so the call has to follow the redirection.
    let key = format!("{{access:{}}}set:{}", shards.of(&names[0]), names[0]);
    let slot = cluster.slot_of(&key);
    cluster.migrate_slot(slot, (cluster.master_of(slot) + 1) % cluster.nodes().len());
    assert_eq!(include(&sets[0], 0..101).await, 1);
}
