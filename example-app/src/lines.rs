//! Output that never blocks.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Writes lines to a terminal, a file or a pipe in a separate thread, so that a slow or closed reader can't
/// block or fail the program. If the queue is full, lines are dropped.
///
/// `tracing-appender` is similar, but might print on shutdown, which could block or panic.
#[derive(Clone, Debug)]
pub(crate) struct Lines(SyncSender<Message>);

/// Waits for the remaining lines on drop, but at most for a second.
#[derive(Debug)]
pub(crate) struct FlushGuard(SyncSender<Message>);

#[derive(Debug)]
enum Message {
    Text(Vec<u8>),
    End(SyncSender<()>),
}

/// Maximum number of queued lines.
const MAX_QUEUED_MESSAGES: usize = 4096;

const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

impl Lines {
    /// Starts to write to `output`.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread can't be started.
    pub(crate) fn to(mut output: impl Write + Send + 'static) -> io::Result<(Self, FlushGuard)> {
        let (sender, messages) = sync_channel(MAX_QUEUED_MESSAGES);
        let write = move || {
            for message in messages {
                match message {
                    // If the output can't be written, we can't report this either.
                    Message::Text(text) => drop(output.write_all(&text).and_then(|()| output.flush())),
                    Message::End(ended) => drop(ended.send(())),
                }
            }
        };
        thread::Builder::new().name("lines".to_owned()).spawn(write)?;
        Ok((Self(sender.clone()), FlushGuard(sender)))
    }
}

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        drop(self.0.try_send(Message::Text(text.to_vec())));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        let (sender, ended) = sync_channel(1);
        if self.0.try_send(Message::End(sender)).is_ok() {
            let _ = ended.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}
