//! Statistics that a Redis server reports via `INFO`.

use std::collections::BTreeMap;
use std::time::Duration;

use tests::RedisServer;

/// Server statistics, either since startup or for an interval.
#[derive(Clone, Debug)]
pub struct Figures {
    /// CPU time of the main thread, which runs the commands.
    pub processor: Duration,
    /// Call counts and durations by command, including commands called from scripts.
    pub commands: BTreeMap<String, Calls>,
    /// Bytes received from clients.
    pub received: u64,
    /// Bytes sent to clients.
    pub sent: u64,
    /// Bytes currently used by the data set and clients.
    pub memory: u64,
    /// Median and maximum script duration in microseconds, since startup or the latest reset.
    pub script: [f64; 2],
}

/// Call count and total duration for a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    pub count: u64,
    pub microseconds: u64,
}

/// Starts a server that also reports the maximum script duration.
#[must_use]
pub fn start() -> RedisServer {
    RedisServer::start_with(&["--latency-tracking-info-percentiles", "50", "100"])
}

impl Figures {
    /// Reads the current statistics from a server.
    ///
    /// # Panics
    /// If the server can't be reached.
    #[must_use]
    pub fn of(server: &RedisServer) -> Self {
        let text = server.command(&["INFO", "everything"]).text().expect("INFO answers text");
        let facts: BTreeMap<_, _> = text.lines().filter_map(|line| line.split_once(':')).collect();
        let seconds = |name: &str| facts[name].parse().map(Duration::from_secs_f64).expect("seconds");
        let number = |name: &str| facts[name].parse().expect("a number");
        let calls = |(name, fields): (&&str, &&str)| {
            let fact = |name: &str| fields.split(',').find_map(|fact| fact.strip_prefix(name)?.parse().ok());
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
                let fields = facts.get("latency_percentiles_usec_evalsha").copied().unwrap_or_default();
                let fact = fields.split(',').find_map(|fact| fact.strip_prefix(percentile)?.parse().ok());
                fact.unwrap_or_default()
            }),
        }
    }

    /// Returns the difference to earlier statistics. For memory, this is the growth.
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

    /// Returns the call count and total duration for a command.
    #[must_use]
    pub fn calls(&self, command: &str) -> Calls {
        self.commands.get(command).copied().unwrap_or_default()
    }

    /// Returns the number of data commands, including commands called from scripts.
    #[must_use]
    pub fn operations(&self) -> u64 {
        let excluded = ["info", "evalsha", "eval", "client|id", "ping", "hello"];
        self.commands
            .iter()
            .filter(|(name, _)| !excluded.contains(&&***name))
            .map(|(_, calls)| calls.count)
            .sum()
    }
}
