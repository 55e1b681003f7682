//! Programs under test.

use std::io::{BufRead, BufReader, Read, empty};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, thread};

use tokio::sync::OnceCell;
use tokio::time;

use crate::child::OwnedChild;
use crate::patience::{POLL_INTERVAL, Patience};

/// Upper bound for a full build on a slow machine.
const BUILD_TIMEOUT: Duration = Duration::from_secs(600);

/// Packages with examples.
const EXAMPLES: [&str; 5] =
    ["counter-admin", "counter-alert", "counter-core", "counter-layer", "counter-log"];

/// Maximum number of lines that are collected from an output. Additional lines are read but discarded.
pub const MAX_LINES: usize = 10_000;

/// Returns the path to the `example-app` program.
///
/// This is the program in `COUNTER_EXAMPLE` if the variable is set. Otherwise, the program will be built with
/// the profile of this test, into the same target folder. This only happens on the first call in a process.
///
/// # Panics
///
/// Panics with the compiler output if the build fails.
pub async fn example() -> PathBuf {
    static EXAMPLE: OnceCell<PathBuf> = OnceCell::const_new();
    match std::env::var_os("COUNTER_EXAMPLE") {
        Some(built) => built.into(),
        None => EXAMPLE.get_or_init(build_example).await.clone(),
    }
}

/// Returns a command that starts `example-app` with counts in memory on a free port, regardless of the
/// environment.
///
/// # Panics
///
/// Panics like [`example`].
pub async fn example_command() -> Command {
    let mut command = Command::new(example().await);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"COUNTER_") {
            command.env_remove(name);
        }
    }
    command.envs([("COUNTER_STORE", "memory:"), ("COUNTER_LISTEN", "127.0.0.1:0")]);
    command
}

/// Returns the path to an example of a published package, which is built with the same command.
///
/// # Panics
///
/// Panics like [`example`].
pub async fn use_case(name: &str) -> PathBuf {
    example().await.with_file_name("examples").join(name)
}

/// Builds the programs. We need to do this here because Cargo only builds the programs of the package under
/// test, and these belong to a different package.
async fn build_example() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test is known");
    // target/debug/deps/suite-0123456789abcdef
    let built = test.ancestors().nth(2).expect("the test is in the folder of a profile");
    let profile = match built.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        profile => profile.expect("a profile has a name"),
    };
    let mut build = Process::start(
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--locked", "--bins", "--examples", "--package", "example-app"])
            .args(EXAMPLES.iter().flat_map(|package| ["--package", package]))
            .args([
                "--features",
                "example-app/manual,counter-alert/webhook,counter-core/sqlite,counter-layer/limit",
            ])
            .args(["--profile", profile, "--target-dir"])
            .arg(built.parent().expect("the profile is in a target folder")),
    );
    let status = build.wait(BUILD_TIMEOUT).await;
    assert!(status.success(), "the example does not build\n{build}");
    built.join("example-app")
}

/// A program that will be killed on drop.
///
/// The first 10,000 lines of the standard output and of the standard error are collected, and included in
/// panic messages.
#[derive(Debug)]
pub struct Process {
    child: OwnedChild,
    output: Lines,
    errors: Lines,
}

impl Process {
    /// Starts a program.
    ///
    /// # Panics
    ///
    /// Panics if the program can't be started.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::piped(), Stdio::piped())
    }

    /// Starts a program with the given standard output and standard error. These are not collected.
    ///
    /// # Panics
    ///
    /// Panics if the program can't be started.
    #[must_use]
    pub fn start_with(command: &mut Command, output: impl Into<Stdio>, errors: impl Into<Stdio>) -> Self {
        command.stdout(output).stderr(errors);
        let mut child =
            OwnedChild::spawn(command).unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let process = child.process();
        let (output, errors) = (process.stdout.take(), process.stderr.take());
        // There is nothing to collect if the caller passes a different output.
        let output = output.map_or_else(|| Lines::collect(empty()), Lines::collect);
        let errors = errors.map_or_else(|| Lines::collect(empty()), Lines::collect);
        Self { child, output, errors }
    }

    /// Returns the process id.
    pub fn id(&mut self) -> u32 {
        self.child.process().id()
    }

    /// Returns the lines of the standard output so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.output.read(|lines| lines.to_vec())
    }

    /// Returns whether the standard output is closed and all lines are collected.
    #[must_use]
    pub fn output_is_closed(&self) -> bool {
        self.output.is_closed()
    }

    /// Waits for a line of the standard output for which `find` returns a value, and returns this value. This
    /// always starts from the first line.
    ///
    /// # Panics
    ///
    /// Panics after `limit`, or if the output ends without such a line.
    pub async fn wait_line<T>(&self, find: impl Fn(&str) -> Option<T>, limit: Duration) -> T {
        let patience = Patience::new(limit);
        let mut checked = 0;
        loop {
            // This must be read first, because a line might be added just before the end.
            let ended = self.output.is_closed();
            let found = self.output.read(|lines| {
                let new_lines = &lines[checked..];
                checked = lines.len();
                new_lines.iter().find_map(|line| find(line))
            });
            if let Some(found) = found {
                return found;
            }
            if ended {
                // A different thread collects the errors, so these might arrive a bit later.
                while !self.errors.is_closed() && !patience.is_over() {
                    time::sleep(POLL_INTERVAL).await;
                }
                panic!("the output ended without a matching line\n{self}");
            }
            assert!(!patience.is_over(), "no matching line in {limit:?}\n{self}");
            time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits for a line of the standard error for which `find` returns a value, and returns this value.
    ///
    /// # Panics
    ///
    /// Panics after `limit`, or if the errors end without such a line.
    pub async fn wait_error_line<T>(&self, find: impl Fn(&str) -> Option<T>, limit: Duration) -> T {
        let patience = Patience::new(limit);
        loop {
            // This must be read first, because a line might be added just before the end.
            let ended = self.errors.is_closed();
            if let Some(found) = self.errors.read(|lines| lines.iter().find_map(|line| find(line))) {
                return found;
            }
            assert!(!ended, "the errors ended without a matching line\n{self}");
            assert!(!patience.is_over(), "no matching line in {limit:?}\n{self}");
            time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Sends SIGTERM, unless the program has already exited. Use [`wait`](Self::wait) to get the exit status.
    pub fn terminate(&mut self) {
        self.child.terminate();
    }

    /// Sends SIGINT, like Ctrl-C, unless the program has already exited.
    pub fn interrupt(&mut self) {
        self.child.signal("INT");
    }

    /// Kills the program with SIGKILL.
    pub fn kill(&mut self) -> ExitStatus {
        self.child.kill()
    }

    /// Waits for the program to exit.
    ///
    /// # Panics
    ///
    /// Panics after `limit`.
    pub async fn wait(&mut self, limit: Duration) -> ExitStatus {
        let patience = Patience::new(limit);
        loop {
            if let Some(status) = self.child.status() {
                return status;
            }
            assert!(!patience.is_over(), "still running after {limit:?}\n{self}");
            time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Writes the collected output.
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, lines) in [("output", &self.output), ("errors", &self.errors)] {
            writeln!(f, "--- {name}:")?;
            lines.read(|lines| lines.iter().try_for_each(|line| writeln!(f, "{line}")))?;
        }
        Ok(())
    }
}

/// Lines of an output, collected by a thread until the output is closed.
#[derive(Debug)]
struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    reader: thread::JoinHandle<()>,
}

impl Lines {
    fn collect(output: impl Read + Send + 'static) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
                if collected.len() < MAX_LINES {
                    collected.push(String::from_utf8_lossy(&line).into_owned());
                }
            }
        });
        Self { lines, reader }
    }

    fn read<T>(&self, reading: impl FnOnce(&[String]) -> T) -> T {
        // If the closure of a test panics in here, our panic must not hide it.
        reading(&self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_closed(&self) -> bool {
        self.reader.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::Process;

    const LIMIT: Duration = crate::until::LIMIT;

    fn shell(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script]).env("PORT", "80"))
    }

    #[tokio::test]
    async fn wait_line_returns_the_parsed_value() {
        let process = shell("echo first; echo listening on $PORT; exec sleep 60");
        let port =
            process.wait_line(|line| line.strip_prefix("listening on ")?.parse::<u16>().ok(), LIMIT).await;
        assert_eq!(port, 80);
        assert_eq!(process.lines(), ["first", "listening on 80"]);
    }

    #[tokio::test]
    async fn output_after_sigterm_is_collected() {
        let mut process = shell("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done");
        process.wait_line(|line| (line == "up").then_some(()), LIMIT).await;
        process.terminate();
        assert_eq!(process.wait(LIMIT).await.code(), Some(3));
        process.wait_line(|line| (line == "bye").then_some(()), LIMIT).await;
    }

    #[tokio::test]
    #[should_panic(expected = "the reason")]
    async fn an_early_exit_panics_with_the_standard_error() {
        let process = shell("echo the reason >&2");
        process.wait_line(|_| None::<()>, LIMIT).await;
    }
}
