use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use crate::resp::{self, Value};

/// A complete frame, as raw bytes and as a parsed value.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    pub(super) value: Value,
    /// Time at which the end of the frame was received.
    pub(super) received: Instant,
}

impl Frame {
    /// Returns whether this is a request with any of these commands.
    pub(super) fn is_any_of(&self, commands: &[&str]) -> bool {
        let Value::Array(words) = &self.value else {
            return false;
        };
        let Some(Value::Bulk(word)) = words.first() else {
            return false;
        };
        commands.iter().any(|command| word.eq_ignore_ascii_case(command.as_bytes()))
    }

    /// Returns whether this is a push message, which has a separate type in RESP3.
    pub(super) fn is_push(&self) -> bool {
        self.bytes.starts_with(b">")
    }

    /// Returns whether this is an error that means the call was not executed: either the script is unknown,
    /// or the transaction was aborted.
    pub(super) fn is_not_run(&self) -> bool {
        let Value::Error(text) = &self.value else {
            return false;
        };
        text.starts_with("NOSCRIPT") || text.starts_with("EXECABORT")
    }
}

/// Splits a byte stream into frames.
#[derive(Debug)]
pub(super) struct Frames<R> {
    reader: R,
    /// Bytes of an incomplete frame.
    buffer: Vec<u8>,
    received: Instant,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), received: Instant::now() }
    }

    /// Returns the underlying reader.
    pub(super) fn reader(&self) -> &R {
        &self.reader
    }

    /// Returns the next frame, or `None` if the stream is closed, broken, or not RESP.
    ///
    /// # Cancel safety
    ///
    /// This is cancel safe: no bytes are lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            match resp::decode(&self.buffer) {
                Ok(Some((value, length))) => {
                    let rest = self.buffer.split_off(length);
                    let bytes = std::mem::replace(&mut self.buffer, rest);
                    let received = self.received;
                    return Some(Frame { bytes, value, received });
                }
                Ok(None) => {}
                Err(error) => {
                    eprintln!("fault proxy: {error}");
                    return None;
                }
            }
            self.buffer.reserve(16 * 1024);
            if self.reader.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
            self.received = Instant::now();
        }
    }
}
