use std::fmt;

use super::error::PatternError;
use crate::request::path;

/// The pattern kinds, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PatternKind {
    /// `/catalog`, or the empty pattern for the home page.
    Exact,
    /// `/articles/{id}` or `/files/{*rest}`.
    Template,
    /// `/static/*`.
    Prefix,
    /// `*.html`.
    Extension,
}

/// A parsed pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// The pattern, as given.
    pub(super) text: String,
    pub(super) kind: PatternKind,
    /// The key to compare patterns of this kind: a path, a template with generic parameter names, the path
    /// before `/*`, or an extension.
    pub(super) key: String,
}

impl Pattern {
    /// Parses the text, or returns it with the error.
    pub(super) fn parse(text: String) -> Result<Self, (String, PatternError)> {
        match read(&text) {
            Ok((kind, key)) => Ok(Self { text, kind, key }),
            Err(reason) => Err((text, reason)),
        }
    }
}

fn read(text: &str) -> Result<(PatternKind, String), PatternError> {
    match text {
        "" => return Ok((PatternKind::Exact, "/".to_owned())),
        "/" => return Err(PatternError::BareSlash),
        _ if text.len() > path::MAX_BYTES => return Err(PatternError::TooLong),
        _ if text.contains(char::is_control) => return Err(PatternError::ControlCharacter),
        _ if text.contains(['?', '#']) => return Err(PatternError::Query),
        _ => {}
    }
    if let Some(extension) = text.strip_prefix("*.") {
        return Ok((PatternKind::Extension, read_extension(extension)?));
    }
    if text.starts_with('*') {
        return Err(PatternError::Star(text.to_owned()));
    }
    let below_root = text.strip_prefix('/').ok_or(PatternError::MissingSlash)?;
    let (segments, prefix) = match below_root.strip_suffix('*') {
        Some("") => return Ok((PatternKind::Prefix, String::new())),
        Some(head) if head.ends_with('/') => (&head[..head.len() - 1], true),
        _ => (below_root, false),
    };
    let mut key = String::with_capacity(text.len());
    let mut rest = segments.split('/').peekable();
    while let Some(segment) = rest.next() {
        key.push('/');
        read_segment(segment, prefix || rest.peek().is_some(), &mut key)?;
    }
    let template = key.contains('{');
    match (template, prefix) {
        (false, false) => Ok((PatternKind::Exact, key)),
        (true, false) => Ok((PatternKind::Template, key)),
        (false, true) => Ok((PatternKind::Prefix, key)),
        (true, true) => Err(PatternError::PrefixAfterParameter),
    }
}

fn read_extension(extension: &str) -> Result<String, PatternError> {
    if extension.is_empty() || extension.contains(['/', '*', '.', ';', '{', '}']) {
        return Err(PatternError::Extension);
    }
    encode_literal(extension)
}

/// Appends a segment to the key, with a generic parameter name.
fn read_segment(segment: &str, has_more_segments: bool, key: &mut String) -> Result<(), PatternError> {
    let owned = || segment.to_owned();
    if segment.starts_with(':') {
        return Err(PatternError::Colon(owned()));
    }
    let (literal, parameter) = match segment.split_once('{') {
        Some((literal, parameter)) => (literal, Some(parameter)),
        None => (segment, None),
    };
    if literal.contains('}') {
        return Err(PatternError::Brace(owned()));
    }
    if literal.contains('*') {
        return Err(PatternError::Star(owned()));
    }
    if literal.contains(';') {
        return Err(PatternError::PathParameter(owned()));
    }
    if segment.is_empty() && has_more_segments {
        return Err(PatternError::EmptySegment);
    }
    if segment == "." || segment == ".." {
        return Err(PatternError::DotSegment);
    }
    key.push_str(&encode_literal(literal)?);
    let Some(parameter) = parameter else { return Ok(()) };
    let (name, after) = parameter.split_once('}').ok_or_else(|| PatternError::Brace(owned()))?;
    let (name, catch_all) = name.strip_prefix('*').map_or((name, false), |name| (name, true));
    if name.contains('{') {
        return Err(PatternError::Brace(owned()));
    }
    if name.contains('*') {
        return Err(PatternError::Star(owned()));
    }
    if name.is_empty() {
        return Err(PatternError::EmptyName(owned()));
    }
    if !after.is_empty() {
        return Err(PatternError::TextAfterParameter(owned()));
    }
    if catch_all && has_more_segments {
        return Err(PatternError::CatchAllNotLast(owned()));
    }
    key.push_str(if catch_all { "{*p}" } else { "{p}" });
    Ok(())
}

/// Encodes the text like in a normal path, i.e. with characters not allowed in a path encoded.
fn encode_literal(text: &str) -> Result<String, PatternError> {
    let normal = path::normalise_text(text);
    if path::has_denormal_encoding(text) {
        return Err(PatternError::Encoding { text: text.to_owned(), normal });
    }
    Ok(normal)
}

impl fmt::Display for PatternKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exact => "exact",
            Self::Template => "template",
            Self::Prefix => "prefix",
            Self::Extension => "extension",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_parse_into_kind_and_key() {
        for (text, kind, key) in [
            ("", PatternKind::Exact, "/"),
            ("/catalog", PatternKind::Exact, "/catalog"),
            ("/catalog/", PatternKind::Exact, "/catalog/"),
            ("/caf\u{e9}", PatternKind::Exact, "/caf%C3%A9"),
            ("/a%2Fb", PatternKind::Exact, "/a%2Fb"),
            ("/a:b/.c/...", PatternKind::Exact, "/a:b/.c/..."),
            ("/*", PatternKind::Prefix, ""),
            ("/baz/*", PatternKind::Prefix, "/baz"),
            ("/foo/bar/*", PatternKind::Prefix, "/foo/bar"),
            ("*.bop", PatternKind::Extension, "bop"),
            ("/articles/{id}", PatternKind::Template, "/articles/{p}"),
            ("/{a}/{b}/", PatternKind::Template, "/{p}/{p}/"),
            ("/user_{name}", PatternKind::Template, "/user_{p}"),
            ("/files/{*rest}", PatternKind::Template, "/files/{*p}"),
        ] {
            assert_eq!(read(text), Ok((kind, key.to_owned())), "{text}");
        }
    }

    #[test]
    fn unmatchable_patterns_are_rejected_with_a_suggestion() {
        for (text, words) in [
            ("/", "write the empty pattern"),
            ("catalog", "does not start with a slash"),
            ("{id}", "does not start with a slash"),
            (":id", "does not start with a slash"),
            ("/foo/:bar", "write {bar}"),
            ("/foo/:bar/x", "write {bar}"),
            ("*", "has a star in \"*\""),
            ("*bop", "has a star"),
            ("/a/*/b", "write {name}"),
            ("/a*", "has a star"),
            ("/a/b*c/d", "has a star"),
            ("/**", "has a star"),
            ("/{a*}", "has a star"),
            ("/{**a}", "has a star"),
            ("/a/*.bop", "has a star"),
            ("/{a}/*", "write /{*rest}"),
            ("*.", "not a single extension"),
            ("*.a/b", "not a single extension"),
            ("*.*", "not a single extension"),
            ("*.tar.gz", "not a single extension"),
            ("*.{ext}", "not a single extension"),
            ("/{id", "unpaired brace"),
            ("/id}", "unpaired brace"),
            ("/{{id}}", "unpaired brace"),
            ("/{a/b}", "unpaired brace"),
            ("/{}", "without a name"),
            ("/{*}", "without a name"),
            ("/{a}.html", "text after the parameter"),
            ("/{a}{b}", "text after the parameter"),
            ("/{*a}/b", "continues after"),
            ("/{*a}/", "continues after"),
            ("/a?b=1", "query"),
            ("/a#b", "query or a fragment"),
            ("/a\nb", "control character"),
            ("/a;b", "path parameter"),
            ("//a", "two slashes"),
            ("/a//*", "two slashes"),
            ("//*", "two slashes"),
            ("/./a", "the resolved path"),
            ("/a/..", "the resolved path"),
            ("/a/../*", "the resolved path"),
            ("/%61", "write a"),
            ("/caf%c3%a9", "write caf%C3%A9"),
            ("/%7euser/{id}", "write ~user"),
            ("*.%62op", "write bop"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let long = format!("/{}", "a".repeat(path::MAX_BYTES));
        assert_eq!(read(&long), Err(PatternError::TooLong));
    }
}
