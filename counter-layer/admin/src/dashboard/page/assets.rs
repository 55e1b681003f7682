//! The stylesheet and the script, served under paths that contain a content hash.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, StatusCode};

use crate::problem::Problem;

const STYLE: &str = include_str!("../../../templates/assets/style.css");
const SCRIPT: &str = include_str!("../../../templates/assets/script.js");

/// The hash over both files, used in the paths.
const HASH: u64 = hash(hash(0xcbf2_9ce4_8422_2325, STYLE.as_bytes()), SCRIPT.as_bytes());

/// Returns the stylesheet path, relative to the mount.
pub(crate) fn style() -> String {
    format!("/assets/{HASH:016x}/style.css")
}

/// Returns the script path, relative to the mount.
pub(crate) fn script() -> String {
    format!("/assets/{HASH:016x}/script.js")
}

/// Serves the stylesheet or the script, depending on the file name.
pub(crate) async fn asset(Path((hash, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let (kind, text) = match name.as_str() {
        "style.css" => ("text/css; charset=utf-8", STYLE),
        "script.js" => ("text/javascript; charset=utf-8", SCRIPT),
        _ => return Problem::unknown_path().into_response(),
    };
    let tag = format!("\"{HASH:016x}\"");
    // A page of another version requests another hash. We just serve the current file here, but it must never
    // be cached.
    let cache_control =
        if hash == format!("{HASH:016x}") { "private, max-age=31536000, immutable" } else { "no-cache" };
    let cached = headers.get_all(IF_NONE_MATCH).iter().any(|etag| etag.as_bytes() == tag.as_bytes());
    let head = [
        (CONTENT_TYPE, kind.to_owned()),
        (CACHE_CONTROL, cache_control.to_owned()),
        (ETAG, tag),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    if cached {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    (head, text).into_response()
}

/// Serves the stylesheet for shared views, without caching.
pub(crate) async fn shared_style() -> Response {
    let head = [(CONTENT_TYPE, "text/css; charset=utf-8"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (head, STYLE).into_response()
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
