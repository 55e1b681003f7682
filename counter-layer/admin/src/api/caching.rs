//! `ETag` and `Cache-Control` headers for responses about a range.
//!
//! Even closed buckets can change: after an outage, hits might arrive late, and counters can be forgotten.
//! Thus, we compute the validator from the response instead of the query, and let caches reuse a response for
//! a tenth of the time since the range ended, up to an hour.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::response::{IntoResponse, Response};
use counter_core::{Precision, Timestamp};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

/// The maximum `max-age`, in seconds.
const MAX_CACHE_AGE: u64 = 3600;

/// Returns the `max-age` at `now` for a range that ends at `end`, or `None` if a bucket in the range is still
/// open.
pub(crate) fn max_age(precision: Precision, end: Timestamp, now: Timestamp) -> Option<u64> {
    let over = precision.bucket(end.minus(1)).end();
    (over <= now).then(|| ((now.as_unix() - over.as_unix()) / 10).min(MAX_CACHE_AGE))
}

/// Responds with JSON, or with a 304 if the client already has this response.
pub(crate) fn json_response(request: &HeaderMap, max_age: Option<u64>, value: &impl Serialize) -> Response {
    let body = serde_json::to_string(value).expect("responses can be serialized");
    // A partial response must not be kept until the rest can be read again. Strings can't contain an unescaped quote.
    let max_age = max_age.filter(|_| !body.contains("\"unreadable\":"));
    respond(request, max_age, "application/json", body)
}

pub(crate) fn respond(request: &HeaderMap, max_age: Option<u64>, kind: &str, body: String) -> Response {
    let cache_control = match max_age {
        Some(seconds @ 1..) => format!("private, max-age={seconds}"),
        _ => "private, no-cache".to_owned(),
    };
    validate(request, cache_control, kind, body)
}

/// Responds with this body and a validator, or with a 304 if the client already has this response.
pub(crate) fn validate(request: &HeaderMap, cache_control: String, kind: &str, body: String) -> Response {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let tag = format!("\"{:016x}-{:x}\"", hasher.finish(), body.len());
    let known = matches(request, &tag);
    let headers = [(ETAG, tag), (CACHE_CONTROL, cache_control)];
    if known {
        (StatusCode::NOT_MODIFIED, headers).into_response()
    } else {
        (headers, [(CONTENT_TYPE, kind)], body).into_response()
    }
}

fn matches(request: &HeaderMap, tag: &str) -> bool {
    let values = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_ranges_are_cacheable_for_a_tenth_of_the_time_since() {
        let minute = Precision::MINUTE;
        let table = [
            // The range can end with the last bucket, or inside of it; an open bucket can't be cached.
            (600, 600, Some(0)),
            (600, 699, Some(9)),
            (601, 659, None),
            (601, 660, Some(0)),
            (660, 659, None),
            (u64::MAX, 600, None),
            (60, 1_000_000, Some(MAX_CACHE_AGE)),
        ];
        for (end, now, expected) in table {
            let (end, at) = (Timestamp::from_unix(end), Timestamp::from_unix(now));
            assert_eq!(max_age(minute, end, at), expected, "to {end} at {now}");
        }
    }
}
