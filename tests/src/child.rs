//! A child process that ends with its owner.

use std::process::{Child, Command, ExitStatus, Stdio};

/// A child that is killed and reaped on drop; it knows SIGTERM, which std's own does not.
#[derive(Debug)]
pub(crate) struct OwnedChild(Child);

impl OwnedChild {
    /// Starts `command` without an input.
    pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Self> {
        command.stdin(Stdio::null()).spawn().map(Self)
    }

    /// The process itself, for its pipes and its id.
    pub(crate) fn process(&mut self) -> &mut Child {
        &mut self.0
    }

    /// How it ended; `None` while it runs.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a child of ours can be waited for")
    }

    /// Sends SIGTERM, unless it has ended.
    pub(crate) fn terminate(&mut self) {
        self.signal("TERM");
    }

    /// Sends the signal of this name, unless it has ended.
    pub(crate) fn signal(&mut self, signal: &str) {
        // Until a child is reaped its id is not given away, so the signal meets nobody else.
        if self.status().is_some() {
            return;
        }
        // The shell's own `kill`: the program of that name is missing on slim systems.
        let sent = Command::new("sh")
            .args(["-c", "kill -\"$1\" \"$0\""])
            .arg(self.0.id().to_string())
            .arg(signal)
            .status()
            .expect("there is a shell");
        assert!(sent.success(), "SIG{signal} to a child of ours: {sent}");
    }

    /// Ends it at once by SIGKILL, and reaps it.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        self.0.kill().expect("a child of ours can be killed");
        self.0.wait().expect("a child of ours can be waited for")
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // Not `Self::kill`: a panic in a drop while a test panics would hide what failed.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
