//! Fields of CSV files.

use std::borrow::Cow;

/// Formats a name as a quoted field of RFC 4180, which spreadsheets don't evaluate as a formula.
pub(crate) fn name(name: &str) -> String {
    format!("\"{}\"", escape_formula(name).replace('"', "\"\""))
}

/// Formats a number, or an empty field if it is unknown.
pub(crate) fn number(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// Escapes a name so that spreadsheets don't evaluate it as a formula. If the name starts with a formula
/// character or an apostrophe, this prepends an apostrophe. Readers can thus always remove a leading
/// apostrophe.
fn escape_formula(name: &str) -> Cow<'_, str> {
    // From the OWASP page on CSV injection, limited to characters that names can contain. Includes full-width
    // forms.
    const FORMULA_CHARACTERS: [char; 9] = ['\'', '=', '+', '-', '@', '＝', '＋', '－', '＠'];
    if name.starts_with(FORMULA_CHARACTERS) { format!("'{name}").into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_formulas_and_can_be_restored() {
        for (name, written) in [
            ("/", "/"),
            ("a=b", "a=b"),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("＝1", "'＝1"),
            ("'=1", "''=1"),
            ("'", "''"),
        ] {
            assert_eq!(escape_formula(name), written);
            assert_eq!(written.strip_prefix('\'').unwrap_or(written), name);
        }
    }
}
