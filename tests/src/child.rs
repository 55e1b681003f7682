//! Child processes that are killed on drop.

use std::process::{Child, Command, ExitStatus, Stdio};

/// A child process that will be killed and reaped on drop. Unlike the `Child` of std, it can also be sent
/// SIGTERM.
#[derive(Debug)]
pub(crate) struct OwnedChild(Child);

impl OwnedChild {
    /// Spawns `command` with an empty standard input.
    pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Self> {
        command.stdin(Stdio::null()).spawn().map(Self)
    }

    /// Returns the process, e.g. to take the pipes or the id.
    pub(crate) fn process(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Returns the exit status, or `None` if the process has not exited yet.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("we can wait for a child process")
    }

    /// Sends SIGTERM, unless the process has already exited.
    pub(crate) fn terminate(&mut self) {
        self.signal("TERM");
    }

    /// Sends the signal with this name, unless the process has already exited.
    pub(crate) fn signal(&mut self, signal: &str) {
        // The id can't be reused until we reap the child, so this can't hit a different process.
        if self.status().is_some() {
            return;
        }
        // We use the `kill` of the shell because slim systems do not install the program.
        let sent = Command::new("sh")
            .args(["-c", "kill -\"$1\" \"$0\""])
            .arg(self.0.id().to_string())
            .arg(signal)
            .status()
            .expect("sh is installed");
        assert!(sent.success(), "failed to send SIG{signal}: {sent}");
    }

    /// Kills the process with SIGKILL and reaps it.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        self.0.kill().expect("we can kill a child process");
        self.0.wait().expect("we can wait for a child process")
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // We can't call `Self::kill` here: if it panicked while the test panics, the reason for the failure
        // would be lost.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
