//! Updates of a page that is open: only the parts that changed.
//!
//! A part is an element with the attribute `data-part` and an id. When a page is sent, every part gets a tag, which is a
//! hash of its text. The script sends the tags of all parts that it shows, so we don't need to remember what a
//! client has. A known part within a changed part is sent without its content.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use axum::response::{Html, IntoResponse, Response};
use http::header::{CACHE_CONTROL, HeaderName};
use http::{HeaderMap, StatusCode};

use crate::dashboard::view::by::By;
use crate::dashboard::view::view::Page;

/// The header with the tags of all parts that a client has, separated by spaces.
const KNOWN_PARTS: HeaderName = HeaderName::from_static("x-known-parts");

/// The attribute of parts.
const PART: &str = "data-part";

/// Seconds between updates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// For the parts that change with each hit.
    pub(crate) parts: u32,
    /// For the whole page.
    pub(crate) page: u32,
}

/// The tags of the parts that a client has.
#[derive(Debug, Default)]
pub(crate) struct KnownParts<'a>(HashSet<&'a str>);

/// An element of a page.
struct Element<'a> {
    name: &'a str,
    /// The start tag without `>`.
    start: &'a str,
    content: &'a str,
    whole: &'a str,
}

impl Pace {
    /// Returns the pace for a page with this interval. The longer it is, the less a single hit changes. A list is only read
    /// as a whole.
    pub(crate) const fn of(page: Page, by: By) -> Self {
        let pace = Self::of_chart(by);
        match page {
            Page::Site | Page::Counter => pace,
            Page::List => Self { parts: pace.page, ..pace },
        }
    }

    const fn of_chart(by: By) -> Self {
        match by {
            By::Width(..60) => Self { parts: 1, page: 10 },
            By::Width(60..3600) => Self { parts: 2, page: 20 },
            By::Width(_) => Self { parts: 3, page: 30 },
            By::Day | By::Week | By::Month => Self { parts: 5, page: 60 },
        }
    }
}

impl<'a> KnownParts<'a> {
    /// Returns `None` if the client does not show the page yet.
    pub(crate) fn of(headers: &'a HeaderMap) -> Option<Self> {
        let tags = headers.get(KNOWN_PARTS)?.to_str().unwrap_or_default();
        Some(Self(tags.split_ascii_whitespace().collect()))
    }
}

/// Responds with a page, or with its unknown parts. If there are none, the response is empty.
pub(crate) fn respond(known: Option<&KnownParts<'_>>, page: &str) -> Response {
    let Some(known) = known else { return Html(with_tags(page)).into_response() };
    let cache_control = [(CACHE_CONTROL, "no-store")];
    match unknown_parts(page, known) {
        parts if parts.is_empty() => (StatusCode::NO_CONTENT, cache_control).into_response(),
        parts => (cache_control, Html(parts)).into_response(),
    }
}

/// Adds a tag to each part.
fn with_tags(page: &str) -> String {
    let mut text = String::with_capacity(page.len() + 2048);
    write(page, &KnownParts::default(), &mut text);
    text
}

/// Returns the parts of a page that are not known.
fn unknown_parts(page: &str, known: &KnownParts<'_>) -> String {
    let (mut text, mut rest) = (String::new(), page);
    while let Some((_, part, after)) = next_part(rest) {
        rest = after;
        if known.0.contains(&*part.tag()) {
            continue;
        }
        // Browsers ignore these elements outside of a table.
        let is_of_table = ["thead", "tbody"].contains(&part.name);
        text += if is_of_table { "<table>" } else { "" };
        part.write(known, &mut text);
        text += if is_of_table { "</table>" } else { "" };
    }
    text
}

/// Appends HTML to `text`, with tags, and without the content of known parts.
fn write(html: &str, known: &KnownParts<'_>, text: &mut String) {
    let mut rest = html;
    while let Some((before, part, after)) = next_part(rest) {
        *text += before;
        part.write(known, text);
        rest = after;
    }
    *text += rest;
}

/// Returns the text before the next part, the part, and the text after it.
fn next_part(html: &str) -> Option<(&str, Element<'_>, &str)> {
    // Templates escape `<` and `>` in texts and attributes.
    for (at, _) in html.match_indices('<') {
        let (start, content) = html[at..].split_once('>')?;
        // Every other piece is within quotes.
        let is_part = start.split('"').step_by(2).any(|piece| piece.split(' ').any(|word| word == PART));
        if is_part {
            let name = start[1..].split(' ').next().unwrap_or_default();
            let (end, close) = end_of(name, content)?;
            let end = html.len() - content.len() + end;
            let element = Element {
                name,
                start,
                content: &html[html.len() - content.len()..end],
                whole: &html[at..end + close],
            };
            return Some((&html[..at], element, &html[end + close..]));
        }
    }
    None
}

/// Returns where the content of an element ends, and the length of its end tag.
fn end_of(name: &str, content: &str) -> Option<(usize, usize)> {
    let mut depth = 0;
    for (at, _) in content.match_indices('<') {
        let (tag, _) = content[at + 1..].split_once('>')?;
        match tag.strip_prefix('/') {
            Some(closed) if closed == name && depth == 0 => return Some((at, tag.len() + 2)),
            Some(closed) if closed == name => depth -= 1,
            None if tag.split(' ').next() == Some(name) && !tag.ends_with('/') => depth += 1,
            _ => {}
        }
    }
    None
}

impl Element<'_> {
    fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.whole.hash(&mut hasher);
        format!("{:08x}", hasher.finish() >> 32)
    }

    fn write(&self, known: &KnownParts<'_>, text: &mut String) {
        let (Self { name, start, .. }, tag) = (self, self.tag());
        *text += start;
        if known.0.contains(&*tag) {
            *text += " data-same>";
        } else {
            *text += &format!(" data-tag=\"{tag}\">");
            write(self.content, known, text);
        }
        *text += &format!("</{name}>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<main title=\"a data-part b\"><p>data-part</p><div id=\"a\" data-part class=\"c\"><div>1</div>\
                        <g id=\"b\" data-part><g/><path/></g></div><table><tbody id=\"c\" data-part></tbody></table></main>";

    fn tags(html: &str) -> Vec<&str> {
        html.split("data-tag=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn every_part_of_a_page_gets_a_tag() {
        let page = with_tags(PAGE);
        let [a, b, c] = tags(&page).try_into().expect("three parts");
        let expected = PAGE
            .replace("class=\"c\">", &format!("class=\"c\" data-tag=\"{a}\">"))
            .replace("id=\"b\" data-part>", &format!("id=\"b\" data-part data-tag=\"{b}\">"))
            .replace("id=\"c\" data-part>", &format!("id=\"c\" data-part data-tag=\"{c}\">"));
        assert_eq!(page, expected);
    }

    #[test]
    fn known_parts_are_not_sent() {
        let page = with_tags(PAGE);
        let [a, b, c] = tags(&page).try_into().expect("three parts");
        let known = |tags: &[&'static str]| KnownParts(tags.iter().copied().collect());
        let sent =
            |html: &str, tags: &[&str]| unknown_parts(html, &KnownParts(tags.iter().copied().collect()));
        assert_eq!(sent(PAGE, &[a, b, c]), "");
        let parts = sent(PAGE, &[]);
        assert!(parts.starts_with("<div id=\"a\"") && !parts.contains("main"), "{parts}");
        assert!(
            parts.ends_with(&format!("<table><tbody id=\"c\" data-part data-tag=\"{c}\"></tbody></table>"))
        );
        // A changed part does not repeat the content of a part that it contains.
        let changed = sent(&PAGE.replace(">1<", ">2<"), &[a, b, c]);
        let other = tags(&changed)[0];
        assert_eq!(
            changed,
            format!(
                "<div id=\"a\" data-part class=\"c\" data-tag=\"{other}\"><div>2</div><g id=\"b\" data-part data-same></g></div>"
            )
        );
        assert_eq!(respond(Some(&known(&[])), "<p>1</p>").status(), StatusCode::NO_CONTENT);
    }
}
