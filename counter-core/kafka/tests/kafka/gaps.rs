//! Offsets without records, as created by compaction and transactions. The brokers that we can use for tests
//! don't create any, so we encode the batches of a real broker by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use counter_core::{Counters, MemoryStore};
use counter_kafka::{Decision, KafkaConsumer};

use crate::brokers::Brokers;

/// Batch attributes: transactional, control batch.
const MARKER: i16 = 0x30;

/// A record, with the offset relative to the batch.
struct Record<'a> {
    offset: u8,
    key: &'a [u8],
    value: &'a [u8],
}

/// Encodes a batch with this number of offsets, some of which don't have records.
fn batch(attributes: i16, offsets: i32, records: &[Record<'_>]) -> Vec<u8> {
    // Zigzag-encoded lengths, all less than 64.
    let zigzag = |length: usize| u8::try_from(length * 2).expect("short");
    let mut body = Vec::new();
    for Record { offset, key, value } in records {
        let mut record = vec![0, 0, offset * 2, zigzag(key.len())];
        record.extend_from_slice(key);
        record.push(zigzag(value.len()));
        record.extend_from_slice(value);
        record.push(0);
        body.push(zigzag(record.len()));
        body.extend(record);
    }
    let mut batch = Vec::new();
    batch.extend(0_i64.to_be_bytes());
    batch.extend((49 + i32::try_from(body.len()).expect("short")).to_be_bytes());
    batch.extend([0, 0, 0, 0, 2, 0, 0, 0, 0]);
    batch.extend(attributes.to_be_bytes());
    batch.extend((offsets - 1).to_be_bytes());
    batch.extend([1_i64, 1].map(i64::to_be_bytes).concat());
    batch.extend((-1_i64).to_be_bytes());
    batch.extend((-1_i16).to_be_bytes());
    batch.extend((-1_i32).to_be_bytes());
    batch.extend(offsets.to_be_bytes());
    batch.extend(body);
    batch
}

/// Sends a batch to the leader of partition 0.
fn send(brokers: &Brokers, batch: &[u8]) {
    let mut request = Vec::new();
    // Produce request, version 3, without client id or transaction id, acks = all.
    request.extend([0, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0x10, 0]);
    request.extend(1_i32.to_be_bytes());
    request.extend(i16::try_from(Brokers::TOPIC.len()).expect("short").to_be_bytes());
    request.extend_from_slice(Brokers::TOPIC.as_bytes());
    request.extend(1_i32.to_be_bytes());
    request.extend(0_i32.to_be_bytes());
    request.extend(i32::try_from(batch.len()).expect("short").to_be_bytes());
    request.extend_from_slice(batch);
    let is_taken = brokers.addresses.split(',').any(|broker| {
        let mut stream = TcpStream::connect(broker).expect("the brokers are available");
        stream.write_all(&i32::try_from(request.len()).expect("short").to_be_bytes()).expect("written");
        stream.write_all(&request).expect("written");
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("answered");
        let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("short")];
        stream.read_exact(&mut answer).expect("answered");
        // Skip the correlation id, topic and partition.
        let error = 4 + 4 + 2 + Brokers::TOPIC.len() + 4 + 4;
        answer[error..error + 2] == [0, 0]
    });
    assert!(is_taken);
}

/// Reads to the end and returns the record offsets.
async fn read(brokers: &Brokers, counters: &Counters) -> Vec<u64> {
    let (recorder, mut offsets) = (counters.recorder(), Vec::new());
    let consumer = KafkaConsumer::builder(&brokers.addresses, Brokers::TOPIC, "g")
        .session_timeout(Duration::from_secs(4))
        .until_end()
        .build(counters.sources(), |record, hits| {
            offsets.push(record.offset());
            hits.push(recorder.counter("a").hit());
            Decision::Counted(counter_core::Timestamp::now())
        });
    consumer.expect("good settings").run(std::future::pending()).await.expect("the brokers are available");
    offsets
}

#[tokio::test]
async fn offset_gaps_are_skipped_and_not_lost() {
    let brokers = Brokers::start(1);
    let counters = Counters::builder(MemoryStore::new()).build().expect("good settings");
    let value = b"a value that is long enough for the brokers";
    let record = |offset| Record { offset, key: b"k", value };
    let marker = batch(MARKER, 1, &[Record { offset: 0, key: &[0, 0, 0, 1], value: &[0, 0, 0, 0, 0, 0] }]);
    // A compacted batch of six records, and a transaction.
    send(&brokers, &batch(0, 6, &[record(2), record(4)]));
    send(&brokers, &batch(0, 3, &[record(0), record(1), record(2)]));
    send(&brokers, &marker);
    assert_eq!(read(&brokers, &counters).await, [2, 4, 6, 7, 8]);
    assert!(read(&brokers, &counters).await.is_empty());
    send(&brokers, &marker);
    assert!(read(&brokers, &counters).await.is_empty());
    send(&brokers, &batch(0, 5, &[record(4)]));
    send(&brokers, &marker);
    assert_eq!(read(&brokers, &counters).await, [15]);
    assert!(read(&brokers, &counters).await.is_empty());
    let records = counters.sources().statuses()[0].ledger.records;
    assert_eq!((records.read, records.recorded, records.lost), (6, 6, 0), "{records:?}");
    assert_eq!(counters.stats().lifetimes(&["a".parse().expect("a name")]).await.expect("memory"), [6]);
}
