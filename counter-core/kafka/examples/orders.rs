//! Orders by country, from a Kafka topic. Each record counts once, even if you kill this program or run it more
//! than once.
//!
//! ```sh
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p counter-kafka --example orders -- localhost:9092 orders
//! echo '{"country": "de"}' | kafka-console-producer.sh --bootstrap-server localhost:9092 --topic orders
//! redis-cli HGETALL access:total
//! ```
//!
//! When the record is counted, the last command prints 1 for `orders` and `orders:de`. To end the program, press
//! Ctrl-C.

use std::env::{args, var};
use std::error::Error;

use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore};
use counter_kafka::{Decision, KafkaConsumer};
use serde::Deserialize;
use tokio::signal::ctrl_c;

#[derive(Deserialize)]
struct Order {
    country: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = args().skip(1).collect();
    let [brokers, topic] = &arguments[..] else { return Err("usage: orders BROKERS TOPIC".into()) };
    let store = RedisStore::connect(&var("REDIS_URL")?, Namespace::default()).await?;
    let counters = Counters::builder(store).build()?;

    let recorder = counters.recorder();
    let orders = recorder.counter("orders");
    // The same record must always lead to the same decision, because it might be read again.
    let consumer = KafkaConsumer::builder(brokers, topic, "order-counter").build(
        counters.sources(),
        move |record, hits| {
            let (Some(at), Some(value)) = (record.timestamp(), record.value()) else {
                return Decision::Malformed;
            };
            let Ok(order) = serde_json::from_slice::<Order>(value) else { return Decision::Malformed };
            // There are few countries. Names above `max_counters` would be counted as `(other)`.
            hits.push(orders.hit());
            hits.push(recorder.counter(&format!("orders:{}", order.country)).hit());
            Decision::Counted(at)
        },
    )?;

    let upkeep = counters.spawn(); // removes counts that have left retention
    consumer.run(async { _ = ctrl_c().await }).await?;
    Ok(upkeep.stop().await?)
}
