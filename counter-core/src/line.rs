//! Lines of dumps of any family: JSON of bounded length, with registers and items in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::sketch::Sketch;

/// The first word of a dump.
pub(crate) const FORMAT: &str = "access-counter";

/// The length of the longest line, in bytes.
pub(crate) const LINE: usize = 64 * 1024;

/// The number of characters of a foreign text that are repeated.
pub(crate) const REPEATED: usize = 500;

/// Reads a line; the error is what was expected.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T, String> {
    if bytes.len() > LINE {
        return Err(format!("a line of at most {LINE} bytes"));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        // It names a line of this text, which is always the first.
        let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
        format!("{what} ({} at byte {})", unquoted(reason), error.column())
    })
}

/// Leaves out the text that an error repeats, which may be anything: an item, or an address.
fn unquoted(reason: &str) -> String {
    match reason.split_once('"').zip(reason.rsplit_once('"')) {
        Some(((before, _), (_, after))) => format!("{before}…{after}"),
        None => reason.to_owned(),
    }
}

/// Returns the beginning of a foreign text.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(REPEATED).collect()
}

/// Returns registers as Redis would store them, in base64.
pub(crate) fn encoded(sketch: &Sketch) -> String {
    STANDARD.encode(sketch.to_redis_short())
}

/// Reads registers; the error is what was expected.
pub(crate) fn registers(text: &str) -> Result<Sketch, String> {
    Sketch::from_redis(&decoded(text)?).map_err(|error| format!("registers ({error})"))
}

/// Returns bytes in base64.
#[cfg(feature = "unique")]
pub(crate) fn encoded_bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads bytes; the error is what was expected.
pub(crate) fn decoded(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("base64 ({error})"))
}
