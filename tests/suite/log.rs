//! Captures a test's log as text.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::fmt::MakeWriter;

/// The log of the current thread. Starts with [`capture`](Self::capture), and ends when the guard is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    text: Arc<Mutex<Vec<u8>>>,
    /// If a process has a single subscriber, tracing assumes that all threads use it: a statement that another test
    /// reaches first would never be logged.
    _second: Dispatch,
}

impl Log {
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        let log = Self { text: Arc::default(), _second: Dispatch::new(NoSubscriber::new()) };
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.text.lock().expect("no panic").clone()).expect("a log is text")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
