/// Escapes a text for use between tags and in attributes, and leaves out characters that XML cannot have.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_what_it_stands_in() {
        assert_eq!(escape("<script a='b'>\"&\u{0}\u{ffff}"), "&lt;script a=&#39;b&#39;&gt;&quot;&amp;");
    }
}
