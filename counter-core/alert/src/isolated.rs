use std::fmt;

/// A name in plain text, isolated from the surrounding text if it contains right-to-left letters or
/// characters that change the direction (Unicode Standard Annex #9, first strong isolates).
pub(crate) struct Isolated<'a>(pub(crate) &'a str);

impl fmt::Display for Isolated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.chars().any(has_direction) {
            return f.write_str(self.0);
        }
        // A control character in the name could end the isolate.
        let plain = |c| if is_control(c) { char::REPLACEMENT_CHARACTER } else { c };
        write!(f, "\u{2068}{}\u{2069}", self.0.chars().map(plain).collect::<String>())
    }
}

const fn is_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `true` for direction controls, marks, and the blocks of right-to-left scripts.
const fn has_direction(c: char) -> bool {
    let is_mark = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}');
    let is_right_to_left = matches!(c,
        '\u{590}'..='\u{8ff}'
        | '\u{fb1d}'..='\u{fdff}'
        | '\u{fe70}'..='\u{feff}'
        | '\u{10800}'..='\u{10fff}'
        | '\u{1e800}'..='\u{1efff}');
    is_control(c) || is_mark || is_right_to_left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_change_the_direction_are_isolated() {
        for (name, expected) in [
            ("/größe/日本", "/größe/日本"),
            ("/אבג", "\u{2068}/אבג\u{2069}"),
            ("\u{202e}gpj.exe", "\u{2068}\u{fffd}gpj.exe\u{2069}"),
            ("a\u{2069}\u{2067}b", "\u{2068}a\u{fffd}\u{fffd}b\u{2069}"),
        ] {
            assert_eq!(Isolated(name).to_string(), expected, "{name}");
        }
    }
}
