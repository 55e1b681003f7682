//! Validators and ages of answers about a range.
//!
//! A bucket that is over should never change, but it may: after an outage hits arrive later than the end of
//! their bucket, and a counter can be forgotten. So the validator is made of what the answer says and
//! not of what was asked, and a cache may do without asking for a tenth of the time that has gone by since
//! the range ended, an hour at most.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::response::{IntoResponse, Response};
use counter_core::{Precision, Timestamp};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

/// The longest that anybody may read an old answer, in seconds.
const LONGEST: u64 = 3600;

/// For how many seconds at `now` an answer need not be asked for again, about a range that ends with `end`.
/// Nothing while one of its buckets is not over.
pub(crate) fn max_age(precision: Precision, end: Timestamp, now: Timestamp) -> Option<u64> {
    let over = precision.bucket(end.minus(1)).end();
    (over <= now).then(|| ((now.as_unix() - over.as_unix()) / 10).min(LONGEST))
}

/// The answer in JSON, or that it is the one that the client has.
pub(crate) fn answer(asked: &HeaderMap, max_age: Option<u64>, value: &impl Serialize) -> Response {
    let body = serde_json::to_string(value).expect("numbers, texts and lists of them have a form in JSON");
    respond(asked, max_age, "application/json", body)
}

pub(crate) fn respond(asked: &HeaderMap, max_age: Option<u64>, kind: &str, body: String) -> Response {
    let kept = match max_age {
        Some(seconds @ 1..) => format!("private, max-age={seconds}"),
        _ => "private, no-cache".to_owned(),
    };
    validate(asked, kept, kind, body)
}

/// The answer with a validator, or that it is the one that the client has.
pub(crate) fn validate(asked: &HeaderMap, kept: String, kind: &str, body: String) -> Response {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let tag = format!("\"{:016x}-{:x}\"", hasher.finish(), body.len());
    let known = has(asked, &tag);
    let headers = [(ETAG, tag), (CACHE_CONTROL, kept)];
    if known {
        (StatusCode::NOT_MODIFIED, headers).into_response()
    } else {
        (headers, [(CONTENT_TYPE, kind)], body).into_response()
    }
}

fn has(asked: &HeaderMap, tag: &str) -> bool {
    let values = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_may_be_kept_for_a_tenth_of_the_time_since() {
        let minute = Precision::try_from(60).expect("not 0");
        let table = [
            // The last bucket ends with the range, with the range in its middle, and not yet.
            (600, 600, Some(0)),
            (600, 699, Some(9)),
            (601, 659, None),
            (601, 660, Some(0)),
            (660, 659, None),
            (u64::MAX, 600, None),
            (60, 1_000_000, Some(LONGEST)),
        ];
        for (end, now, expected) in table {
            let (end, at) = (Timestamp::from_unix(end), Timestamp::from_unix(now));
            assert_eq!(max_age(minute, end, at), expected, "to {end} at {now}");
        }
    }
}
