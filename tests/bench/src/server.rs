//! What a Redis server says of its own work.

use std::collections::BTreeMap;
use std::time::Duration;

use tests::RedisServer;

/// The figures of a server since its start, or between two looks at it.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Processor time of the thread that runs commands.
    pub processor: Duration,
    /// By command, how often it ran and how long it took: what a script runs as well as the script.
    pub commands: BTreeMap<String, Calls>,
    /// Bytes that clients sent.
    pub received: u64,
    /// Bytes that clients were sent.
    pub sent: u64,
    /// Bytes that the data set and the clients take now.
    pub memory: u64,
    /// Of script calls since the start or the last reset: the median, and the longest, in microseconds.
    pub script: [f64; 2],
}

/// How often a command ran, and how long that took altogether.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    pub count: u64,
    pub microseconds: u64,
}

/// A server that tells the longest of its calls.
#[must_use]
pub fn start() -> RedisServer {
    RedisServer::start_with(&["--latency-tracking-info-percentiles", "50", "100"])
}

impl Figures {
    /// Those of a server, now.
    ///
    /// # Panics
    /// When it does not say.
    #[must_use]
    pub fn of(server: &RedisServer) -> Self {
        let text = server.command(&["INFO", "everything"]).text().expect("INFO answers text");
        let facts: BTreeMap<_, _> = text.lines().filter_map(|line| line.split_once(':')).collect();
        let seconds = |name: &str| facts[name].parse().map(Duration::from_secs_f64).expect("seconds");
        let number = |name: &str| facts[name].parse().expect("a number");
        let calls = |(name, told): (&&str, &&str)| {
            let fact = |name: &str| told.split(',').find_map(|fact| fact.strip_prefix(name)?.parse().ok());
            let calls = Calls { count: fact("calls=")?, microseconds: fact("usec=")? };
            Some((name.strip_prefix("cmdstat_")?.to_owned(), calls))
        };
        Self {
            processor: seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread"),
            commands: facts.iter().filter_map(calls).collect(),
            received: number("total_net_input_bytes"),
            sent: number("total_net_output_bytes"),
            memory: number("used_memory"),
            script: ["p50=", "p100="].map(|percentile| {
                let told = facts.get("latency_percentiles_usec_evalsha").copied().unwrap_or_default();
                let fact = told.split(',').find_map(|fact| fact.strip_prefix(percentile)?.parse().ok());
                fact.unwrap_or_default()
            }),
        }
    }

    /// What came after an earlier look; of the memory, how much it grew.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        self.processor -= earlier.processor;
        self.received -= earlier.received;
        self.sent -= earlier.sent;
        self.memory = self.memory.saturating_sub(earlier.memory);
        for (name, before) in &earlier.commands {
            if let Some(calls) = self.commands.get_mut(name) {
                calls.count -= before.count;
                calls.microseconds -= before.microseconds;
            }
        }
        self
    }

    /// How often a command ran, and how long that took.
    #[must_use]
    pub fn calls(&self, command: &str) -> Calls {
        self.commands.get(command).copied().unwrap_or_default()
    }

    /// Commands that did something to data, inside of scripts or by themselves.
    #[must_use]
    pub fn operations(&self) -> u64 {
        let others = ["info", "evalsha", "eval", "client|id", "ping", "hello"];
        self.commands
            .iter()
            .filter(|(name, _)| !others.contains(&&***name))
            .map(|(_, calls)| calls.count)
            .sum()
    }
}
