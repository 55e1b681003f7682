//! The country of a client: a code in a header that a proxy sets.

use super::text::Text;
use super::value::Value;

/// Codes for an unknown country, and for the Tor network.
const UNKNOWN: [&[u8]; 3] = [b"XX", b"ZZ", b"T1"];

pub(super) fn country<'a>(code: &[u8], text: &'a mut Text) -> Value<'a> {
    let code = code.trim_ascii();
    match code {
        b"" => return Value::None,
        _ if UNKNOWN.iter().any(|unknown| unknown.eq_ignore_ascii_case(code)) => return Value::None,
        _ if code.len() != 2 || !code.iter().all(u8::is_ascii_alphabetic) => return Value::Other,
        _ => {}
    }
    text.extend(code.iter().map(u8::to_ascii_uppercase)).map_or(Value::Other, Value::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_country_is_a_code_of_two_letters() {
        for (code, expected) in [
            ("CH", Value::Text("CH")),
            (" de ", Value::Text("DE")),
            ("", Value::None),
            ("XX", Value::None),
            ("zz", Value::None),
            ("T1", Value::None),
            ("T2", Value::Other),
            ("CHE", Value::Other),
            ("CH,DE", Value::Other),
            ("\u{e9}", Value::Other),
        ] {
            assert_eq!(country(code.as_bytes(), &mut Text::new()), expected, "{code}");
        }
    }
}
