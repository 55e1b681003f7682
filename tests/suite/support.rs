//! What several of the tests begin with.

use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use counter_core::{CounterName, Namespace, Precision, RedisStore, Store, Timestamp};
use tests::until;

pub(crate) fn name(text: &str) -> CounterName {
    CounterName::new(text).expect("a counter's name")
}

pub(crate) fn precision(seconds: u32) -> Precision {
    Precision::new(NonZeroU32::new(seconds).expect("not 0"))
}

pub(crate) fn unix(seconds: u64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

/// All the time there is.
pub(crate) fn always() -> Range<Timestamp> {
    Timestamp::MIN..Timestamp::MAX
}

/// A store that is connected.
pub(crate) async fn store(url: &str) -> RedisStore {
    store_in(url, Namespace::default()).await
}

pub(crate) async fn store_in(url: &str, namespace: Namespace) -> RedisStore {
    let store = RedisStore::connect(url, namespace).await.expect("an address");
    let there = async || store.known(&[precision(1)], "", 1).await.is_ok();
    until("the store is connected", Duration::from_secs(10), there).await;
    store
}
