use std::borrow::Cow;

use counter_core::visits::Agent;
use http::header::{ACCEPT_LANGUAGE, REFERER, USER_AGENT};
use http::{HeaderName, HeaderValue};

use super::client::Client;
#[cfg(feature = "geo")]
use super::geo::CountryDatabase;
use super::host::InternalHost;
use super::late::{Late, Missing, When};
use super::text::Text;
use super::value::Value;
use super::{country, language, query, referrer};
use crate::classify::{BotNames, MAX_SCANNED_BYTES, plain};
use crate::closure::Closure;
use crate::identity::{Address, RequestHead};

/// The part of a request that determines a label value.
pub(super) enum Source {
    Referrer {
        internal: Vec<InternalHost>,
    },
    /// The first of these parameters of the query.
    Query(&'static [&'static str]),
    Device,
    Browser,
    Bot(Box<BotNames>),
    Language,
    Country {
        header: HeaderName,
        client: Box<Address>,
    },
    #[cfg(feature = "geo")]
    Database {
        database: CountryDatabase,
        client: Box<Address>,
    },
    Closure(Box<FromFn>),
    /// Depends on the response.
    Late(Late),
}

/// A closure to find a value in the request head.
pub(super) type FromFn = Closure<dyn for<'a> Fn(&RequestHead<'a>) -> Option<Cow<'a, str>> + Send + Sync>;

impl Source {
    /// Returns when the value counts, if this depends on the response.
    pub(super) const fn when(&self) -> Option<When> {
        if let Self::Late(late) = self { Some(late.when()) } else { None }
    }

    /// Returns text that does not need to be validated if it is equal to a known value. `None` if there is a shorter
    /// way to the value.
    #[inline]
    pub(super) fn plain<'a>(&self, head: &RequestHead<'a>) -> Option<&'a [u8]> {
        match self {
            Self::Referrer { internal } => referrer::plain_host(header(head, &REFERER), internal),
            Self::Language => Some(language::first(header(head, &ACCEPT_LANGUAGE))),
            _ => None,
        }
    }

    /// Returns the header that contains the value.
    pub(super) fn header(&self) -> Option<HeaderName> {
        match self {
            Self::Referrer { .. } | Self::Late(Late::Group { .. } | Late::Missing(Missing::Link)) => {
                Some(REFERER)
            }
            Self::Device | Self::Browser | Self::Bot(_) => Some(USER_AGENT),
            Self::Language => Some(ACCEPT_LANGUAGE),
            Self::Country { header, .. } => Some(header.clone()),
            #[cfg(feature = "geo")]
            Self::Database { .. } => None,
            Self::Query(_) | Self::Closure(_) | Self::Late(_) => None,
        }
    }

    /// Returns the value of a request.
    pub(super) fn value<'a>(
        &self,
        head: &RequestHead<'a>,
        (agent, client): (Agent, Option<Client>),
        text: &'a mut Text,
    ) -> Value<'a> {
        match self {
            Self::Bot(_) if agent != Agent::Bot => Value::None,
            Self::Referrer { internal } => {
                referrer::site(header(head, &REFERER), head.uri.query(), internal, text)
            }
            Self::Query(names) => query::value(head.uri.query(), names, text),
            Self::Device => client.map_or(Value::Other, Client::device),
            Self::Browser => client.map_or(Value::Other, Client::browser),
            Self::Language => language::language(header(head, &ACCEPT_LANGUAGE), text),
            Self::Country { header, client } if client.is_forwarded(head) => {
                // A client can send this header as well, so the line of the nearest proxy counts.
                let code = head.headers.get_all(header).iter().next_back();
                country::country(code.map_or(&[], HeaderValue::as_bytes), text)
            }
            Self::Country { .. } => Value::None,
            #[cfg(feature = "geo")]
            Self::Database { database, client } => match client.ip(head) {
                Some(address) => database.country(address.to_canonical(), text),
                None => Value::None,
            },
            Self::Bot(names) => {
                let name = names.find(plain(header(head, &USER_AGENT), &mut [0; MAX_SCANNED_BYTES]));
                name.map_or(Value::Other, Value::Text)
            }
            Self::Closure(closure) => match closure.call(|closure| closure(head)) {
                Some(Some(Cow::Borrowed(value))) => Value::of(value),
                Some(Some(Cow::Owned(value))) => text.extend(value.bytes()).map_or(Value::Other, Value::of),
                Some(None) => Value::None,
                None => Value::Other,
            },
            Self::Late(_) => Value::Other,
        }
    }
}

pub(super) fn header<'a>(head: &RequestHead<'a>, name: &HeaderName) -> &'a [u8] {
    head.headers.get(name).map_or(&[], |value| value.as_bytes())
}
