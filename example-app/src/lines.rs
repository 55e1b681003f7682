//! Output that nothing waits for.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Lines on their way to a terminal, a file or a pipe. A thread of their own writes them: a reader that is
/// slow holds up nothing, and one that is gone fails nothing. What finds no place then is lost.
///
/// (`tracing-appender` does the same, but may print, and so block or panic, when it ends.)
#[derive(Clone, Debug)]
pub(crate) struct Lines(SyncSender<Message>);

/// Waits, when it is dropped, until the last lines are written; for a second at most.
#[derive(Debug)]
pub(crate) struct LastLines(SyncSender<Message>);

#[derive(Debug)]
enum Message {
    Text(Vec<u8>),
    End(SyncSender<()>),
}

/// As many wait.
const WAITING: usize = 4096;

const PATIENCE: Duration = Duration::from_secs(1);

impl Lines {
    /// Begins to write to `output`.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn to(mut output: impl Write + Send + 'static) -> io::Result<(Self, LastLines)> {
        let (sender, messages) = sync_channel(WAITING);
        let write = move || {
            for message in messages {
                match message {
                    // Where it cannot be written, there is nowhere to say so.
                    Message::Text(text) => drop(output.write_all(&text).and_then(|()| output.flush())),
                    Message::End(ended) => drop(ended.send(())),
                }
            }
        };
        thread::Builder::new().name("lines".to_owned()).spawn(write)?;
        Ok((Self(sender.clone()), LastLines(sender)))
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

impl Drop for LastLines {
    fn drop(&mut self) {
        let (sender, ended) = sync_channel(1);
        if self.0.try_send(Message::End(sender)).is_ok() {
            let _ = ended.recv_timeout(PATIENCE);
        }
    }
}
