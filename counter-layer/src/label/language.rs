//! The preferred language: the first entry of `Accept-Language`, with region and script removed.

use super::text::Text;
use super::value::Value;

/// Returns the first language as it is.
pub(super) fn first(accepted: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b',' | b';' | b'-' | b'_' | b' ');
    &accepted[..accepted.iter().position(is_end).unwrap_or(accepted.len())]
}

pub(super) fn language<'a>(accepted: &[u8], text: &'a mut Text) -> Value<'a> {
    let first = first(accepted.trim_ascii());
    match first {
        b"" | b"*" => return Value::None,
        _ if !(2..=3).contains(&first.len()) || !first.iter().all(u8::is_ascii_alphabetic) => {
            return Value::Other;
        }
        _ => {}
    }
    text.extend(first.iter().map(u8::to_ascii_lowercase)).map_or(Value::Other, Value::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_accepted_language_is_used() {
        for (accepted, language_of) in [
            ("de-CH,de;q=0.9,en;q=0.8", Value::Text("de")),
            ("EN", Value::Text("en")),
            (" gsw , de", Value::Text("gsw")),
            ("zh_CN", Value::Text("zh")),
            ("", Value::None),
            ("*", Value::None),
            ("english", Value::Other),
            ("1,2", Value::Other),
            ("\u{e9}\u{e9}", Value::Other),
        ] {
            assert_eq!(language(accepted.as_bytes(), &mut Text::new()), language_of, "{accepted}");
        }
    }
}
