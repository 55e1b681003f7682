//! User agents in the form that browsers send.

use memchr::memchr;

use crate::request::path::{Character, Characters};

/// Maximum number of bytes of a user agent to scan. The rest is ignored.
pub(crate) const MAX_SCANNED_BYTES: usize = 1024;

/// Decodes a user agent that a client or proxy has encoded like a part of a URL. The text must fit into the buffer, or
/// else the rest is ignored.
#[inline]
pub(crate) fn plain<'a>(text: &'a [u8], buffer: &'a mut [u8]) -> &'a [u8] {
    if memchr(b' ', text).is_some() || memchr(b'%', text).is_none() { text } else { decoded(text, buffer) }
}

#[inline(never)]
fn decoded<'a>(text: &[u8], buffer: &'a mut [u8]) -> &'a [u8] {
    let mut length = 0;
    for (place, Character { byte, .. }) in buffer.iter_mut().zip(Characters(text)) {
        *place = byte;
        length += 1;
    }
    &buffer[..length]
}
