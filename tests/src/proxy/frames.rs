use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use crate::resp::{self, Value};

/// One whole frame, as it came and as it reads.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    pub(super) value: Value,
    /// When its last byte came.
    pub(super) received: Instant,
}

impl Frame {
    /// Whether it is a request by one of these commands.
    pub(super) fn is_any_of(&self, commands: &[&str]) -> bool {
        let Value::Array(words) = &self.value else {
            return false;
        };
        let Some(Value::Bulk(word)) = words.first() else {
            return false;
        };
        commands.iter().any(|command| word.eq_ignore_ascii_case(command.as_bytes()))
    }

    /// Whether it comes unasked, which RESP3 marks by a type of its own.
    pub(super) fn is_push(&self) -> bool {
        self.bytes.starts_with(b">")
    }

    /// Whether the server says that it has not run what was called: the script is not known, or
    /// the transaction was no good.
    pub(super) fn is_not_run(&self) -> bool {
        let Value::Error(text) = &self.value else {
            return false;
        };
        text.starts_with("NOSCRIPT") || text.starts_with("EXECABORT")
    }
}

/// A stream of bytes, read frame by frame.
#[derive(Debug)]
pub(super) struct Frames<R> {
    reader: R,
    /// What has come and is no whole frame yet.
    buffer: Vec<u8>,
    received: Instant,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), received: Instant::now() }
    }

    /// Where they come from.
    pub(super) fn reader(&self) -> &R {
        &self.reader
    }

    /// The next frame; `None` when the stream is over, broken or not RESP.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped loses no byte.
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
