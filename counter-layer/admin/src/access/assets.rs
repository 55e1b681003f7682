//! The stylesheet, the script and the icon, served under paths that contain a content hash.
//!
//! These files are public, because login pages, error pages and shared views also use them.

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{Method, StatusCode};

const STYLE: &str = include_str!("../../templates/assets/style.css");
const SCRIPT: &str = include_str!("../../templates/assets/script.js");
const ICON: &str = include_str!("../../templates/assets/icon.svg");

/// The hash over all files, used in the paths.
const HASH: u64 =
    hash(hash(hash(0xcbf2_9ce4_8422_2325, STYLE.as_bytes()), SCRIPT.as_bytes()), ICON.as_bytes());

/// The prefix of all paths.
const FOLDER: &str = "/assets/";

/// Returns the stylesheet path, relative to the mount.
pub(crate) fn style() -> String {
    format!("{FOLDER}{HASH:016x}/style.css")
}

/// Returns the script path, relative to the mount.
pub(crate) fn script() -> String {
    format!("{FOLDER}{HASH:016x}/script.js")
}

/// Returns the icon path, relative to the mount.
pub(crate) fn icon() -> String {
    format!("{FOLDER}{HASH:016x}/icon.svg")
}

/// Serves a file, or returns `None` if this is a different request.
pub(crate) fn serve(parts: &Parts) -> Option<Response> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return None;
    }
    let (hash, name) = parts.uri.path().strip_prefix(FOLDER)?.split_once('/')?;
    let (kind, text) = match name {
        "style.css" => ("text/css; charset=utf-8", STYLE),
        "script.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return None,
    };
    let tag = format!("\"{HASH:016x}\"");
    // A page of another version requests another hash. We just serve the current file here, but it must never
    // be cached.
    let cache_control =
        if hash == format!("{HASH:016x}") { "private, max-age=31536000, immutable" } else { "no-cache" };
    let cached = parts.headers.get_all(IF_NONE_MATCH).iter().any(|etag| etag.as_bytes() == tag.as_bytes());
    let head = [
        (CONTENT_TYPE, kind.to_owned()),
        (CACHE_CONTROL, cache_control.to_owned()),
        (ETAG, tag),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Some(if cached { (StatusCode::NOT_MODIFIED, head).into_response() } else { (head, text).into_response() })
}

/// FNV-1a, which can be evaluated at compile time.
const fn hash(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut place = 0;
    while place < bytes.len() {
        hash = (hash ^ bytes[place] as u64).wrapping_mul(0x0100_0000_01b3);
        place += 1;
    }
    hash
}
