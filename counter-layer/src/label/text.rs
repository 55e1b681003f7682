use std::str::from_utf8;

/// Text built on the stack.
pub(super) struct Text {
    bytes: [u8; MAX_BYTES],
    length: usize,
}

/// Maximum length of a value, because counter names are limited to 200 bytes.
const MAX_BYTES: usize = 200;

impl Text {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; MAX_BYTES], length: 0 }
    }

    /// Appends a byte, or returns `None` if the buffer is full.
    pub(super) fn push(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(self.length)? = byte;
        self.length += 1;
        Some(())
    }

    /// Appends bytes, and returns the whole text if it fits and is valid UTF-8.
    pub(super) fn extend(&mut self, mut bytes: impl Iterator<Item = u8>) -> Option<&str> {
        bytes.try_for_each(|byte| self.push(byte))?;
        self.as_str()
    }

    pub(super) const fn clear(&mut self) {
        self.length = 0;
    }

    /// Returns the text, if it is valid UTF-8.
    pub(super) fn as_str(&self) -> Option<&str> {
        from_utf8(&self.bytes[..self.length]).ok()
    }
}
