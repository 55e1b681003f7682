use std::ffi::OsString;
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tests::LIMIT;

use crate::consumers::SESSION;
use crate::random::Random;

/// Returns the path of an example that was built with the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("path of the test binary");
    // target/debug/deps/kafka-0123456789abcdef
    test.ancestors().nth(2).expect("target folder").join("examples").join(name)
}

/// Brokers in a separate process, which is killed on drop: either three in-memory brokers of librdkafka, or
/// the Tansu broker set in `COUNTER_TANSU`.
#[derive(Debug)]
pub(crate) struct Brokers {
    child: Child,
    control: Option<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
    partitions: i32,
    pub(crate) addresses: String,
}

impl Brokers {
    pub(crate) const TOPIC: &str = "hits";

    pub(crate) fn start(partitions: i32) -> Self {
        match std::env::var_os("COUNTER_TANSU") {
            Some(program) => Self::tansu(&program, partitions),
            None => Self::in_memory(partitions),
        }
    }

    fn in_memory(partitions: i32) -> Self {
        let quarantine =
            std::env::var_os("COUNTER_QUARANTINE").expect("these tests run by `tests/tools/kafka`");
        let mut child = Command::new(example("broker"))
            .env("LD_PRELOAD", quarantine)
            .args([Self::TOPIC, &partitions.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example `broker` is built");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut output = BufReader::new(output).lines();
        let addresses = output.next().expect("the addresses are printed").expect("UTF-8");
        Self { child, control: Some((input, output)), partitions, addresses }
    }

    fn tansu(program: &OsString, partitions: i32) -> Self {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let addresses = free.local_addr().expect("bound").to_string();
        drop(free);
        let url = format!("tcp://{addresses}");
        let child = Command::new(program)
            .args(["broker", "--listener-url", &url, "--advertised-listener-url", &url])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("COUNTER_TANSU is a program");
        let brokers = Self { child, control: None, partitions, addresses };
        let deadline = Instant::now() + LIMIT;
        while TcpStream::connect(&brokers.addresses).is_err() {
            assert!(Instant::now() < deadline, "Tansu does not listen");
            sleep(Duration::from_millis(20));
        }
        brokers.create(Self::TOPIC);
        brokers
    }

    /// Creates a topic. In-memory brokers do this automatically.
    pub(crate) fn create(&self, topic: &str) {
        let Some(program) = std::env::var_os("COUNTER_TANSU") else { return };
        let (url, partitions) = (format!("tcp://{}", self.addresses), self.partitions.to_string());
        let created = Command::new(program)
            .args(["topic", "create", "--broker", &url, "--partitions", &partitions, topic])
            .status();
        assert!(created.expect("COUNTER_TANSU is a program").success());
    }

    /// Fences the next member, on in-memory brokers only.
    pub(crate) fn fence(&mut self) {
        self.command("fence");
    }

    fn command(&mut self, command: &str) {
        let Some((input, output)) = &mut self.control else { return };
        writeln!(input, "{command}").expect("the brokers run");
        let answer = output.next().expect("the brokers run").expect("UTF-8");
        assert_eq!(answer, format!("done: {command}"));
    }

    pub(crate) const fn are_in_memory(&self) -> bool {
        self.control.is_some()
    }

    /// Makes a broker temporarily unavailable.
    pub(crate) fn interrupt(&mut self, random: &mut Random) {
        let pause = random.millis(100..1000);
        if self.control.is_some() {
            let broker = random.among(1..4);
            self.command(&format!("down {broker}"));
            sleep(pause);
            self.command(&format!("up {broker}"));
        } else {
            signal(self.child.id(), "STOP");
            sleep(pause);
            signal(self.child.id(), "CONT");
        }
    }

    /// Returns a random pause for a member, which exceeds the session timeout in half of the cases.
    pub(crate) fn pause(random: &mut Random) -> Duration {
        random.millis(200..2000 * SESSION.as_secs())
    }

    /// Moves a partition to a new leader.
    pub(crate) fn move_leader(&mut self, random: &mut Random) {
        let partition = random.among(0..self.partitions.unsigned_abs().into());
        self.command(&format!("leader {partition} {}", random.among(1..4)));
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Sends a signal like STOP to a child process.
pub(crate) fn signal(id: u32, signal: &str) {
    let sent = Command::new("sh").args(["-c", "kill -\"$1\" \"$0\"", &id.to_string(), signal]).status();
    assert!(sent.expect("there is a shell").success());
}
