//! Clocks of other machines are wrong: the store's own decides.

use std::num::NonZeroU32;

use counter_core::{Counters, Timestamp};
use tests::RedisServer;

use crate::stores::without_scripts;
use crate::support::{name, precision, store};

#[tokio::test]
async fn a_cleaner_whose_clock_is_ahead_takes_nothing_that_others_keep() {
    for server in [RedisServer::start(), without_scripts()] {
        let counters = Counters::builder(store(&server.url()).await).build().expect("good settings");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let (mut flusher, _) = counters.into_parts();
        for day in 0..100 {
            let at = Timestamp::now().minus(day * 86_400);
            recorder.record_at(recorder.counter("hits"), None, at, NonZeroU32::MIN);
        }
        flusher.flush().await.expect("flushes");
        let other = Counters::builder(store(&server.url()).await).build().expect("good settings");
        let (_, mut cleaner) = other.into_parts();
        cleaner.clean_once(Timestamp::now().plus(183 * 86_400)).await.expect("cleans");
        let range = Timestamp::now().minus(110 * 86_400)..Timestamp::now().plus(1);
        let total = stats.total(&name("hits"), precision(86_400), range).await.expect("readable");
        assert_eq!(total, 100);
    }
}

#[tokio::test]
async fn hits_of_a_clock_that_is_days_ahead_are_dropped_and_accounted_for() {
    for server in [RedisServer::start(), without_scripts()] {
        let redis = store(&server.url()).await;
        let mut counters = Counters::builder(redis).build().expect("good settings");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let now = Timestamp::now();
        let key = counter_core::visitor::VisitorKey::new([7; 16]);
        for ahead in [0, 3600, 20 * 3600, 2 * 86_400, 300 * 86_400] {
            let visitor = key.visitor(&[&now.plus(ahead).as_unix().to_le_bytes()]);
            recorder.record_at(recorder.counter("hits"), visitor, now.plus(ahead), NonZeroU32::MIN);
        }
        counters.flush().await.expect("flushes");
        let hits = stats.ledger().hits;
        assert_eq!((hits.applied, hits.dropped.ahead, hits.balance()), (3, 2, true));
        assert_eq!(stats.lifetimes(&[name("hits")]).await.expect("readable"), [3]);
        let skew = stats.health().clock_skew.expect("a batch was sent");
        assert!(skew.abs() <= 1, "both are of one machine: {skew}");
    }
}
