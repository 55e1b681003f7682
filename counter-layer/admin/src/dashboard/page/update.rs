//! Updates of a page that is open: only the parts that changed.
//!
//! A part is an element with the attribute `data-part` and an id. When a page is sent, every part gets a tag, which is a
//! hash of its text. The script sends the tags of all parts that it shows, so we don't need to remember what a
//! client has. A known part within a changed part is sent without its content.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

use axum::response::{Html, IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, HeaderName, VARY};
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
pub(crate) struct KnownParts<'a> {
    tags: HashSet<&'a str>,
    accepts_gzip: bool,
}

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
        Some(Self { tags: tags.split_ascii_whitespace().collect(), accepts_gzip: accepts_gzip(headers) })
    }
}

/// Returns `true` if a client accepts compressed responses (RFC 9110, section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|text| text.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|weight| weight > 0.0)
    })
}

/// Compresses a text, which takes about 0.1 ms for an update.
fn compressed(text: &str) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).ok()?;
    encoder.finish().ok()
}

/// Responds with a page, or with its unknown parts. If there are none, the response is empty.
pub(crate) fn respond(known: Option<&KnownParts<'_>>, page: &str) -> Response {
    let Some(known) = known else { return Html(with_tags(page)).into_response() };
    let cache_control = [(CACHE_CONTROL, "no-store")];
    match unknown_parts(page, known) {
        parts if parts.is_empty() => (StatusCode::NO_CONTENT, cache_control).into_response(),
        // Whole pages can contain links with a signature beside what a request contains, which would reveal them (BREACH).
        parts => match known.accepts_gzip.then(|| compressed(&parts)).flatten() {
            Some(bytes) => {
                let encoding = [(CONTENT_ENCODING, "gzip"), (VARY, "accept-encoding")];
                (cache_control, encoding, Html(bytes)).into_response()
            }
            None => (cache_control, Html(parts)).into_response(),
        },
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
        if known.tags.contains(&*part.tag()) {
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
        if known.tags.contains(&*tag) {
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
    use std::io::Read;

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
        let known =
            |tags: &[&'static str]| KnownParts { tags: tags.iter().copied().collect(), accepts_gzip: false };
        let sent = |html: &str, tags: &[&str]| {
            unknown_parts(html, &KnownParts { tags: tags.iter().copied().collect(), accepts_gzip: false })
        };
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

    #[tokio::test]
    async fn updates_are_compressed_if_the_client_accepts_it() {
        let update = async |accepted: &'static str| {
            let headers = [(KNOWN_PARTS, ""), (ACCEPT_ENCODING, accepted)];
            let headers = headers.map(|(name, value)| (name, value.parse().expect("text")));
            let headers: HeaderMap = headers.into_iter().collect();
            let response = respond(KnownParts::of(&headers).as_ref(), PAGE);
            let encoding = response.headers().get(CONTENT_ENCODING).cloned();
            let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
            (encoding, bytes)
        };
        let (_, plain) = update("").await;
        for accepted in ["gzip", "br, gzip;q=0.5", "deflate,GZIP"] {
            let (encoding, bytes) = update(accepted).await;
            assert_eq!(
                encoding.as_ref().map(|encoding| encoding.as_bytes()),
                Some(&b"gzip"[..]),
                "{accepted}"
            );
            let mut text = String::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("gzip");
            assert_eq!(text, plain, "{accepted}");
        }
        for accepted in ["", "br", "gzip;q=0", "gzip;q=0.0, br", "*"] {
            assert_eq!(update(accepted).await, (None, plain.clone()), "{accepted}");
        }
        assert_eq!(respond(None, PAGE).headers().get(CONTENT_ENCODING), None);
    }
}
