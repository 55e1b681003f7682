//! Tests of the consumer with Kafka brokers and Redis.

mod brokers;
mod consumers;
#[path = "../../../../tests/suite/random.rs"]
#[expect(dead_code, reason = "only the suite uses everything")]
mod random;
mod topic;

mod exact;
mod gaps;
mod members;
mod storm;
