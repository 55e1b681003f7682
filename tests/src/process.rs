//! A program under test.

use std::io::{BufRead, BufReader, Read, empty};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, thread};

use tokio::sync::OnceCell;
use tokio::time::{self, Instant};

use crate::child::OwnedChild;
use crate::until::PAUSE;

/// How long a build may take, from nothing on a slow machine.
const BUILD: Duration = Duration::from_secs(600);

/// The number of lines of each output that are kept; those after them are read and thrown away.
pub const LINES: usize = 10_000;

/// The program of the package `example-app`: the one that `COUNTER_EXAMPLE` names, or built like this test and
/// beside it, once in a process.
///
/// # Panics
///
/// When it does not build, with what the compiler said.
pub async fn example() -> PathBuf {
    static EXAMPLE: OnceCell<PathBuf> = OnceCell::const_new();
    match std::env::var_os("COUNTER_EXAMPLE") {
        Some(built) => built.into(),
        None => EXAMPLE.get_or_init(build_example).await.clone(),
    }
}

/// The program that the README shows: the example `minimal` of that package, built along with it.
///
/// # Panics
///
/// As [`example`].
pub async fn minimal() -> PathBuf {
    example().await.with_file_name("examples").join("minimal")
}

/// The program without a framework: the example `hyper` of that package, built along with it.
///
/// # Panics
///
/// As [`example`].
pub async fn hyper() -> PathBuf {
    example().await.with_file_name("examples").join("hyper")
}

/// Cargo makes the programs of a test's own package only, and of this one there are none.
async fn build_example() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    // target/debug/deps/suite-0123456789abcdef
    let built = test.ancestors().nth(2).expect("a test lies in a folder of its profile");
    let profile = match built.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        profile => profile.expect("a profile has a name"),
    };
    let mut build = Process::start(
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--locked", "--package", "example-app", "--bins"])
            .args(["--example", "minimal", "--example", "hyper"])
            .args(["--profile", profile, "--target-dir"])
            .arg(built.parent().expect("profiles lie in a folder")),
    );
    let status = build.wait(BUILD).await;
    assert!(status.success(), "the example does not build\n{build}");
    built.join("example-app")
}

/// A program that a test started; killed when this is dropped.
///
/// Its standard output and its standard error are collected line by line, the first 10,000 of
/// each, and told by every panic about it.
#[derive(Debug)]
pub struct Process {
    child: OwnedChild,
    output: Lines,
    errors: Lines,
}

impl Process {
    /// Starts the program that `command` describes, with its arguments and its environment.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::piped(), Stdio::piped())
    }

    /// Starts a program with a standard output and a standard error of one's own, which are not collected.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn start_with(command: &mut Command, output: impl Into<Stdio>, errors: impl Into<Stdio>) -> Self {
        command.stdout(output).stderr(errors);
        let mut child =
            OwnedChild::spawn(command).unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let process = child.process();
        let (output, errors) = (process.stdout.take(), process.stderr.take());
        // Where these are another's, there is nothing to collect.
        let output = output.map_or_else(|| Lines::collect(empty()), Lines::collect);
        let errors = errors.map_or_else(|| Lines::collect(empty()), Lines::collect);
        Self { child, output, errors }
    }

    /// The process id.
    pub fn id(&mut self) -> u32 {
        self.child.process().id()
    }

    /// The lines of the standard output up to now.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.output.read(|lines| lines.to_vec())
    }

    /// Returns whether the standard output has ended, and all of its lines are there.
    #[must_use]
    pub fn has_said_all(&self) -> bool {
        self.output.have_ended()
    }

    /// Waits for a line of the standard output that `find` accepts, and returns what `find` makes of it.
    /// Every call looks at all lines, from the first one on.
    ///
    /// # Panics
    ///
    /// After `limit`, or as soon as the output has ended without such a line.
    pub async fn wait_line<T>(&self, find: impl Fn(&str) -> Option<T>, limit: Duration) -> T {
        let deadline = Instant::now() + limit;
        let mut seen = 0;
        loop {
            // Before the lines: none of them comes after the end.
            let ended = self.output.have_ended();
            let found = self.output.read(|lines| {
                let unseen = &lines[seen..];
                seen = lines.len();
                unseen.iter().find_map(|line| find(line))
            });
            if let Some(found) = found {
                return found;
            }
            if ended {
                // What they say may still be on its way, by another thread.
                while !self.errors.have_ended() && Instant::now() < deadline {
                    time::sleep(PAUSE).await;
                }
                panic!("the output ended without the line\n{self}");
            }
            assert!(Instant::now() < deadline, "no such line in {limit:?}\n{self}");
            time::sleep(PAUSE).await;
        }
    }

    /// Waits for a line of the standard error that `find` accepts, and returns what `find` makes of it.
    ///
    /// # Panics
    ///
    /// After `limit`.
    pub async fn wait_error_line<T>(&self, find: impl Fn(&str) -> Option<T>, limit: Duration) -> T {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(found) = self.errors.read(|lines| lines.iter().find_map(|line| find(line))) {
                return found;
            }
            assert!(Instant::now() < deadline, "no such line in {limit:?}\n{self}");
            time::sleep(PAUSE).await;
        }
    }

    /// Sends SIGTERM; nothing when it has ended. [`wait`](Self::wait) tells how that went.
    pub fn terminate(&mut self) {
        self.child.terminate();
    }

    /// Sends SIGINT, as Ctrl-C does; nothing when it has ended.
    pub fn interrupt(&mut self) {
        self.child.signal("INT");
    }

    /// Ends it at once, by SIGKILL.
    pub fn kill(&mut self) -> ExitStatus {
        self.child.kill()
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    ///
    /// After `limit`.
    pub async fn wait(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.status() {
                return status;
            }
            assert!(Instant::now() < deadline, "still runs after {limit:?}\n{self}");
            time::sleep(PAUSE).await;
        }
    }
}

/// Everything that it wrote.
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, lines) in [("output", &self.output), ("errors", &self.errors)] {
            writeln!(f, "--- its {name}:")?;
            lines.read(|lines| lines.iter().try_for_each(|line| writeln!(f, "{line}")))?;
        }
        Ok(())
    }
}

/// The lines of one output, collected by a thread that ends with it.
#[derive(Debug)]
struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    reader: thread::JoinHandle<()>,
}

impl Lines {
    fn collect(output: impl Read + Send + 'static) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() < LINES {
                    kept.push(String::from_utf8_lossy(&line).into_owned());
                }
            }
        });
        Self { lines, reader }
    }

    fn read<T>(&self, reading: impl FnOnce(&[String]) -> T) -> T {
        // A closure of a test that panics in here must not hide its panic behind ours.
        reading(&self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn have_ended(&self) -> bool {
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
    async fn a_line_is_waited_for_and_its_value_returned() {
        let process = shell("echo first; echo listening on $PORT; exec sleep 60");
        let port =
            process.wait_line(|line| line.strip_prefix("listening on ")?.parse::<u16>().ok(), LIMIT).await;
        assert_eq!(port, 80);
        assert_eq!(process.lines(), ["first", "listening on 80"]);
    }

    #[tokio::test]
    async fn a_terminated_program_may_still_say_goodbye() {
        let mut process = shell("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done");
        process.wait_line(|line| (line == "up").then_some(()), LIMIT).await;
        process.terminate();
        assert_eq!(process.wait(LIMIT).await.code(), Some(3));
        process.wait_line(|line| (line == "bye").then_some(()), LIMIT).await;
    }

    #[tokio::test]
    #[should_panic(expected = "the reason")]
    async fn a_program_that_ends_too_early_is_told_with_its_errors() {
        let process = shell("echo the reason >&2");
        process.wait_line(|_| None::<()>, LIMIT).await;
    }
}
