//! In-memory brokers to try a consumer without Kafka. These are the mock brokers of librdkafka, which use the
//! Kafka protocol over TCP.
//!
//! `cargo run --example broker -- hits 4` serves a topic with four partitions from three brokers, prints the
//! addresses, and reads commands from standard input until the end of input: `down 1` and `up 1` stop and
//! start a broker; `leader 0 2` moves a partition to another broker; `fence` makes the next heartbeat fail
//! with a fencing error.

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};

use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

const FENCED: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let topic = arguments.next().unwrap_or_else(|| "hits".to_owned());
    let partitions = arguments.next().map_or(Ok(4), |partitions| partitions.parse())?;
    let cluster = MockCluster::new(3)?;
    cluster.create_topic(&topic, partitions, 3)?;
    writeln!(stdout(), "{}", cluster.bootstrap_servers())?;
    for line in stdin().lock().lines() {
        let line = line?;
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["down", broker] => cluster.broker_down(broker.parse()?)?,
            ["up", broker] => cluster.broker_up(broker.parse()?)?,
            ["leader", partition, broker] => {
                cluster.partition_leader(&topic, partition.parse()?, Some(broker.parse()?))?;
            }
            ["fence"] => cluster.request_errors(RDKafkaApiKey::Heartbeat, &[FENCED]),
            _ => return Err(format!("unknown command: {line}").into()),
        }
        writeln!(stdout(), "done: {line}")?;
    }
    Ok(())
}
