/// Escapes text to be used between tags or in attributes, and removes characters not allowed in XML.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// Isolates a name from the surrounding text, so that right-to-left letters and direction controls have no
/// effect outside (Unicode Standard Annex #9, first strong isolates).
pub(crate) fn isolated(name: &str) -> String {
    format!("\u{2068}{}\u{2069}", without_controls(name))
}

/// Isolates a name via an HTML element.
pub(crate) fn bdi(name: &str) -> askama::filters::Safe<String> {
    askama::filters::Safe(format!("<bdi>{}</bdi>", escape(&without_controls(name))))
}

/// Replaces characters that could end an isolate.
pub(crate) fn without_controls(name: &str) -> String {
    let is_control = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    name.chars().map(|c| if is_control(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_isolate() {
        assert_eq!(bdi("<\u{2069}>").0, "<bdi>&lt;\u{fffd}&gt;</bdi>");
        assert_eq!(isolated("a\u{202e}b\u{2069}"), "\u{2068}a\u{fffd}b\u{fffd}\u{2069}");
    }

    #[test]
    fn escaped_text_cannot_end_the_element() {
        assert_eq!(escape("<script a='b'>\"&\u{0}\u{ffff}"), "&lt;script a=&#39;b&#39;&gt;&quot;&amp;");
    }
}
