use std::str::from_utf8;

/// A text that is put together without an allocation.
pub(super) struct Text {
    bytes: [u8; MOST],
    length: usize,
}

/// A longer text is no value: the name of a counter has 200 bytes at most.
const MOST: usize = 200;

impl Text {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; MOST], length: 0 }
    }

    /// Adds a byte; `None` when there is no room for it.
    pub(super) fn push(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(self.length)? = byte;
        self.length += 1;
        Some(())
    }

    pub(super) const fn clear(&mut self) {
        self.length = 0;
    }

    /// Returns the text, if it is UTF-8.
    pub(super) fn as_str(&self) -> Option<&str> {
        from_utf8(&self.bytes[..self.length]).ok()
    }
}
