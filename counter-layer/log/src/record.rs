//! JSON records of hits and requests, to be read from a topic, a file, or a request body.

use std::borrow::Cow;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::visitor::VisitorKey;
use counter_core::visits::Hit;
use counter_core::{Recorder, Timestamp};
use counter_layer::Outcome;
use counter_layer::internal::{address, is_reserved};
use http::{
    StatusCode,
    header::{ACCEPT_LANGUAGE, REFERER, USER_AGENT},
};
use serde::de::{Deserialize, Deserializer, Error};

use crate::counter::{Decision, LogCounter};
use crate::line::{Header, Headers, Line, LoggedHeader, Piece};
use crate::malformed::Malformed;

/// A record of hits or of a request.
///
/// A record is an object with either a `counter` or a `path`. Unknown fields are ignored, as are times and
/// sizes that are negative or too large.
///
/// ```
/// use counter_core::visitor::VisitorKey;
/// use counter_core::{Counters, MemoryStore};
/// use counter_log::Header;
/// use counter_log::record::Record;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let record = r#"{"counter":"signups","at":1763700000,"n":3,"visitor":"ann"}"#;
/// let Record::Counter(record) = serde_json::from_str(record)? else { unreachable!() };
/// let hit = record.hit(&counters.recorder(), Some(VisitorKey::random()));
///
/// let record = r#"{"path":"/articles/7","status":200,"at":1763700000,"address":"192.0.2.1","user_agent":null}"#;
/// let Record::Request(record) = serde_json::from_str(record)? else { unreachable!() };
/// // The record says that the client did not send a user agent, and does not say anything about the referrer.
/// assert_eq!((record.user_agent, record.referrer), (Header::NotSent, Header::NotRecorded));
/// assert!(serde_json::from_str::<Record>(r#"{"at":1763700000}"#).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// Hits of a counter: `{"counter":"signups","at":1763700000,"n":3,"visitor":"ann"}`.
    Counter(CounterRecord<'a>),
    /// A request, to be counted according to the rules:
    /// `{"path":"/articles/7","method":"GET","status":200,"at":1763700000,"address":"192.0.2.1","user_agent":"…","time":0.012,"size":512}`.
    Request(RequestRecord<'a>),
}

/// Hits of a counter at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterRecord<'a> {
    /// The counter name, from `counter`. Some names are reserved for the layer, such as `hits`, `status:2xx`,
    /// `label:device:tv` and `view:hits`.
    pub counter: Cow<'a, str>,
    /// The time, from `at` in Unix seconds.
    pub at: Timestamp,
    /// The number of hits, from `n`. Default: 1.
    pub count: NonZeroU32,
    /// The visitor, from `visitor`. This can be any text that identifies the visitor.
    pub visitor: Option<Cow<'a, str>>,
}

/// A completed request.
///
/// A record should contain `user_agent`, `referrer` and `language` even if the client did not send them, as `null` or an
/// empty text. If a field is missing, the value is not known: without a user agent, we can't tell a bot from a person.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestRecord<'a> {
    /// The path with the query, from `path`.
    pub path: Cow<'a, str>,
    /// The method, from `method`. If it is missing, the request does not have a facet for it.
    pub method: Option<Cow<'a, str>>,
    /// The response status, from `status`. If it is missing, the request does not have a facet for it.
    pub status: Option<u16>,
    /// The time, from `at` in Unix seconds.
    pub at: Timestamp,
    /// The client address, from `address`, with an optional port. This must not be the address of a proxy. If it is
    /// missing or not an address, the request does not have a visitor.
    pub address: Option<IpAddr>,
    /// The user agent, from `user_agent`.
    pub user_agent: Header<Cow<'a, str>>,
    /// The referring URL, from `referrer`, for [labels](counter_layer::Label). Only the host will be stored.
    pub referrer: Header<Cow<'a, str>>,
    /// The preferred languages like in `Accept-Language`, from `language`, for labels.
    pub language: Header<Cow<'a, str>>,
    /// The time to the response head, from `time` in seconds.
    pub time: Option<Duration>,
    /// The time to the end of the response, from `body` in seconds.
    pub body: Option<Duration>,
    /// The size of the response body, from `size` in bytes.
    pub size: Option<u64>,
}

impl CounterRecord<'_> {
    /// Returns the hits. `key` is used to identify the visitor, and must belong to the salt epoch that
    /// contains [`at`](Self::at).
    ///
    /// If the counter name is invalid, the hits count under `(other)`, like with [`Recorder::counter`].
    pub fn hit(&self, recorder: &Recorder, key: Option<VisitorKey>) -> Hit {
        let visitor = key.zip(self.visitor.as_ref()).map(|(key, visitor)| key.visitor(&[visitor.as_bytes()]));
        recorder.counter(&self.counter).hit().weight(self.count).visitor(visitor)
    }
}

impl RequestRecord<'_> {
    /// Evaluates the request with the rules, the identity, the facets and the labels of the layer.
    ///
    /// `key` must be the visitor key of the salt epoch that contains [`at`](Self::at). Records have the same
    /// [limits](LogCounter#limits-of-a-log) as logs, and only contain the headers with a field above.
    ///
    /// ```
    /// use counter_core::visitor::VisitorKey;
    /// use counter_core::{Counters, MemoryStore};
    /// use counter_layer::{AccessCounterLayer, Rule, Rules};
    /// use counter_log::record::Record;
    /// use counter_log::{Decision, LogCounter};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let counters = Counters::builder(MemoryStore::new()).build()?;
    /// let rules = Rules::builder().rule(Rule::counter("articles").pattern("/articles/{id}")).build()?;
    /// let mut counter = LogCounter::new(&AccessCounterLayer::new(counters.recorder()).rules(rules));
    ///
    /// let record = r#"{"path":"/articles/7","at":1763700000,"address":"192.0.2.1","user_agent":"curl/8"}"#;
    /// let Record::Request(request) = serde_json::from_str(record)? else { unreachable!() };
    /// let decision = request.decide(&mut counter, VisitorKey::random());
    /// assert!(matches!(decision, Decision::Counted { hits, .. } if hits.len() == 2)); // `hits` and `articles`
    /// # Ok(())
    /// # }
    /// ```
    pub fn decide<'a>(&self, counter: &'a mut LogCounter, key: VisitorKey) -> Decision<'a> {
        let outcome = match self.status.map(StatusCode::from_u16) {
            Some(Ok(status)) => Outcome::Responded(status),
            Some(Err(_)) => return Decision::Malformed(Malformed::Status),
            None => Outcome::Unknown,
        };
        let mut text = String::new();
        let pieces =
            [(USER_AGENT, &self.user_agent), (REFERER, &self.referrer), (ACCEPT_LANGUAGE, &self.language)]
                .map(|(name, value)| {
                    let start = text.len();
                    let value = match value {
                        Header::Sent(value) => {
                            text.push_str(value);
                            Header::Sent(Piece { start, end: text.len(), is_unescaped: false })
                        }
                        Header::NotSent => Header::NotSent,
                        Header::NotRecorded => Header::NotRecorded,
                    };
                    LoggedHeader { name, rank: 0, value }
                });
        let line = Line {
            at: self.at,
            method: self.method.as_deref().map(str::as_bytes),
            target: self.path.as_bytes(),
            version: None,
            host: None,
            outcome,
            peer: self.address,
            bytes: self.size,
            first_byte: self.time,
            duration: self.body,
            headers: Headers { line: text.as_bytes(), unescaped: &[], pieces: &pieces, are_complete: false },
            lacks_zone: false,
        };
        counter.decide(&line, key)
    }
}

impl std::fmt::Debug for RequestRecord<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Addresses and user agents must not be logged.
        f.debug_struct("RequestRecord")
            .field("status", &self.status)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// The fields of both kinds of records.
#[derive(serde::Deserialize)]
struct Fields<'a> {
    at: u64,
    #[serde(borrow)]
    counter: Option<Cow<'a, str>>,
    n: Option<NonZeroU32>,
    #[serde(borrow)]
    visitor: Option<Cow<'a, str>>,
    #[serde(borrow)]
    path: Option<Cow<'a, str>>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    status: Option<u16>,
    #[serde(borrow)]
    address: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "header")]
    user_agent: Header<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "header")]
    referrer: Header<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "header")]
    language: Header<Cow<'a, str>>,
    time: Option<f64>,
    body: Option<f64>,
    size: Option<i128>,
}

/// Parses a header. If the field is missing, this is not called.
fn header<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Header<Cow<'de, str>>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()).map_or(Header::NotSent, Header::Sent))
}

impl<'de> Deserialize<'de> for Record<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Fields::deserialize(deserializer)?;
        let at = Timestamp::from_unix(fields.at);
        // Invalid times and sizes must not reject the request, e.g. if a clock went backwards or a size is
        // -1.
        let seconds = |seconds: Option<f64>| Duration::try_from_secs_f64(seconds?).ok();
        match (fields.counter, fields.path) {
            (Some(counter), None) if is_reserved(&counter) => {
                Err(D::Error::custom("the counter name is reserved for the layer"))
            }
            (Some(counter), None) => {
                let count = fields.n.unwrap_or(NonZeroU32::MIN);
                Ok(Self::Counter(CounterRecord { counter, at, count, visitor: fields.visitor }))
            }
            (None, Some(path)) => Ok(Self::Request(RequestRecord {
                path,
                method: fields.method,
                status: fields.status,
                at,
                address: fields.address.and_then(|text| address(text.as_bytes())),
                user_agent: fields.user_agent,
                referrer: fields.referrer,
                language: fields.language,
                time: seconds(fields.time),
                body: seconds(fields.body),
                size: fields.size.and_then(|size| size.try_into().ok()),
            })),
            (Some(_), Some(_)) => Err(D::Error::custom("both counter and path are set")),
            (None, None) => Err(D::Error::custom("either counter or path must be set")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_need_a_counter_or_a_path_and_a_positive_count() {
        for record in [
            r#"{"counter":"a","at":1}"#,
            r#"{"counter":"a","at":1,"n":4294967295,"visitor":"","unknown":[]}"#,
            r#"{"path":"/","at":1,"address":"2001:db8::1","user_agent":"é","method":"PUT"}"#,
            r#"{"path":"/","at":1,"time":0,"body":1.5,"size":18446744073709551615}"#,
            r#"{"path":"/","at":1,"address":"client.example.org"}"#,
        ] {
            assert!(serde_json::from_str::<Record<'_>>(record).is_ok(), "{record}");
        }
        for record in [
            r"{}",
            "null",
            "",
            r#"{"counter":"a"}"#,
            r#"{"counter":"a","at":-1}"#,
            r#"{"counter":"a","at":1,"n":0}"#,
            r#"{"counter":"a","at":1,"n":4294967296}"#,
            r#"{"counter":"a","at":1,"at":2}"#,
            r#"{"counter":"a","path":"/","at":1}"#,
            r#"{"counter":"hits","at":1}"#,
            r#"{"counter":"label:referrer:example.com","at":1}"#,
        ] {
            assert!(serde_json::from_str::<Record<'_>>(record).is_err(), "{record}");
        }
    }

    #[test]
    fn invalid_times_and_sizes_are_ignored_and_the_request_counts() {
        let record = r#"{"path":"/","at":1,"time":-0.001,"body":1e300,"size":-1}"#;
        let Ok(Record::Request(request)) = serde_json::from_str(record) else { panic!("{record}") };
        assert_eq!((request.time, request.body, request.size), (None, None, None));
        let record = r#"{"path":"/","at":1,"time":0.5,"size":18446744073709551615}"#;
        let Ok(Record::Request(request)) = serde_json::from_str(record) else { panic!("{record}") };
        assert_eq!((request.time, request.size), (Some(Duration::from_millis(500)), Some(u64::MAX)));
    }

    #[test]
    fn headers_can_be_sent_or_not_or_be_unknown() {
        let of = |field: &str| {
            let record = format!(r#"{{"path":"/","at":1{field}}}"#);
            let Ok(Record::Request(request)) = serde_json::from_str(&record) else { panic!("{record}") };
            request.user_agent.sent().map(Cow::into_owned).ok_or(format!("{:?}", request.referrer))
        };
        assert_eq!(of(r#","user_agent":"a\n""#), Ok("a\n".to_owned()));
        assert_eq!(of(r#","referrer":null"#), Err("NotSent".to_owned()));
        assert_eq!(of(r#","user_agent":"","referrer":"""#), Err("NotSent".to_owned()));
        assert_eq!(of(""), Err("NotRecorded".to_owned()));
    }

    #[test]
    fn debug_output_of_records_hides_the_visitor() {
        let record = r#"{"path":"/","at":1,"address":"192.0.2.1","user_agent":"curl"}"#;
        let shown = format!("{:?}", serde_json::from_str::<Record<'_>>(record).expect("a record"));
        assert!(!shown.contains("192") && !shown.contains("curl"), "{shown}");
    }
}
