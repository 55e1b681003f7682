//! A storm: consumers are killed, paused and replaced, brokers and Redis go away, and every record counts once.

use std::time::{Duration, Instant};

use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore, Timestamp};
use tests::{LIMIT, Process, RedisServer, until};
use tokio::time::sleep;

use crate::brokers::{Brokers, signal};
use crate::consumers::{account, start};
use crate::random::Random;
use crate::topic::Topic;

const PARTITIONS: i32 = 6;
const MEMBERS: usize = 3;

/// Faults of a storm, which are told at the end.
#[derive(Debug, Default)]
struct Events {
    kills: u32,
    restarts: u32,
    pauses: u32,
    brokers: u32,
    leaders: u32,
    stores: u32,
}

/// The consumers of a storm.
struct Members {
    addresses: String,
    redis: String,
    random: Random,
    running: Vec<(usize, Process, Option<Instant>)>,
    /// False where a group may wait for ever for members that were killed: each member has one of its own then.
    has_groups: bool,
    started: u32,
}

impl Members {
    /// Starts the member of this number, in one of two groups: a partition that two groups have is one that two
    /// members believe to have.
    fn start(&mut self, number: usize) {
        self.started += 1;
        let group = match self.has_groups {
            true => self.random.one_of(&["a", "b"]).to_owned(),
            false => self.started.to_string(),
        };
        self.running.push((number, start(&self.addresses, &self.redis, &["--group", &group]), None));
    }

    fn start_all(&mut self) {
        (0..MEMBERS).for_each(|number| self.start(number));
    }

    /// Takes out one member by chance.
    fn take(&mut self) -> (usize, Process, Option<Instant>) {
        let place = self.random.among(0..self.running.len() as u64);
        self.running.swap_remove(usize::try_from(place).expect("few members"))
    }

    fn wake(&mut self, all: bool) {
        for (_, process, asleep) in &mut self.running {
            if asleep.is_some_and(|until| all || until <= Instant::now()) {
                signal(process.id(), "CONT");
                *asleep = None;
            }
        }
    }
}

fn seconds() -> u64 {
    let seconds = std::env::var("COUNTER_STORM_SECONDS").ok();
    seconds.map_or(15, |seconds| seconds.parse().expect("COUNTER_STORM_SECONDS is a whole number"))
}

async fn counters(server: &RedisServer) -> Counters {
    let mut store = None;
    until("Redis is there", LIMIT, async || {
        store = RedisStore::connect(&server.url(), Namespace::default()).await.ok();
        store.is_some()
    })
    .await;
    Counters::builder(store.expect("connected")).build().expect("good settings")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_kills_and_pauses_leaves_every_total_exact() {
    let (mut random, mut events) = (Random::storm("of consumers"), Events::default());
    let mut brokers = Brokers::start(PARTITIONS);
    let mut server = RedisServer::start();
    let mut topic = Topic::new(&brokers.addresses, PARTITIONS.cast_unsigned().into(), random.fork());
    // Salts are as old as the counts under them, or a store that goes back would forget them alone.
    let first = counters(&server).await;
    for back in [0, 600] {
        first.sources().visitor_key(Timestamp::now().minus(back)).await.expect("Redis is there");
    }
    server.command(&["SAVE"]);
    topic.produce(20_000);
    topic.flush();

    let (addresses, redis) = (brokers.addresses.clone(), server.url());
    let (random_of_members, has_groups) = (random.fork(), brokers.are_in_memory());
    let mut members =
        Members { addresses, redis, random: random_of_members, running: Vec::new(), has_groups, started: 0 };
    members.start_all();
    let end = Instant::now() + Duration::from_secs(seconds());
    while Instant::now() < end {
        topic.produce(random.among(50..500));
        sleep(random.millis(100..1200)).await;
        members.wake(false);
        match random.among(0..12) {
            0..5 => {
                let (number, mut process, _) = members.take();
                process.kill();
                events.kills += 1;
                members.start(number);
            }
            5 | 6 => {
                let (number, mut process, _) = members.take();
                signal(process.id(), "STOP");
                let until = Instant::now() + brokers.pause(&mut random);
                members.running.push((number, process, Some(until)));
                events.pauses += 1;
            }
            7 => {
                members.wake(true);
                let (number, mut process, _) = members.take();
                process.terminate();
                account(process).await;
                events.restarts += 1;
                members.start(number);
            }
            8 => {
                brokers.interrupt(&mut random);
                events.brokers += 1;
            }
            9 => {
                brokers.move_leader(&mut random);
                events.leaders += 1;
            }
            10 => {
                // What was counted since the last time is gone, and read again.
                server.kill();
                sleep(random.millis(0..1500)).await;
                server.restart();
                events.stores += 1;
            }
            _ => drop(server.command(&["SAVE"])),
        }
    }
    topic.flush();
    members.wake(true);
    let counters = counters(&server).await;
    println!(
        "{events:?}, {} records, {} hits still to be counted",
        topic.records,
        topic.missing(&counters).await
    );
    let counted = until("everything is counted", LIMIT, async || topic.missing(&counters).await <= 0);
    tokio::select! {
        () = counted => {}
        () = sleep(LIMIT / 2) => {
            let missing = topic.missing(&counters).await;
            panic!("{missing} hits are missing: {}", members.running.iter().map(|(_, process, _)| process.to_string()).collect::<String>());
        }
    }
    for (_, mut process, _) in members.running.drain(..) {
        process.terminate();
        account(process).await;
    }
    // Whatever is read once more counts nothing.
    let last = account(start(&brokers.addresses, &server.url(), &["--group", "c", "--until-end"])).await;
    assert_eq!((last.recorded, last.malformed, last.lost), (0, 0, 0), "{last:?}");
    let store = RedisStore::connect(&server.url(), Namespace::default()).await.expect("Redis is there");
    topic.assert_counted(&store).await;
}
