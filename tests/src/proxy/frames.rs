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
    /// Whether it calls a script.
    pub(super) fn is_script_call(&self) -> bool {
        let Value::Array(words) = &self.value else {
            return false;
        };
        let Some(Value::Bulk(command)) = words.first() else {
            return false;
        };
        command.eq_ignore_ascii_case(b"EVAL") || command.eq_ignore_ascii_case(b"EVALSHA")
    }

    /// Whether it comes unasked, which RESP3 marks by a type of its own.
    pub(super) fn is_push(&self) -> bool {
        self.bytes.starts_with(b">")
    }

    /// Whether the server says that it does not know the script, and so has not run it.
    pub(super) fn is_unknown_script(&self) -> bool {
        matches!(&self.value, Value::Error(text) if text.starts_with("NOSCRIPT"))
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
