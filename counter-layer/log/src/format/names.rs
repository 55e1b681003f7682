//! Field names. Formats with named fields share these, because people use the same names in all of them.
//!
//! Names are compared without case and without separators, so `User-Agent`, `userAgent` and `user_agent` are the same
//! name. Members of nested objects are joined: `http.response.status_code` is `httpresponsestatuscode`.

use http::{HeaderName, header};

use super::clock::TimeForm;
use super::fields::{Field, Slot, X_FORWARDED_FOR};

/// Maximum length of a name in bytes. Longer names are not known.
const MAX_NAME: usize = 64;

/// A name without case and separators.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    text: [u8; MAX_NAME],
    length: usize,
}

impl Name {
    pub(super) const EMPTY: Self = Self { text: [0; MAX_NAME], length: 0 };

    /// Returns this name followed by another one, or an empty name if it is too long.
    pub(super) fn join(mut self, other: &[u8]) -> Self {
        for byte in other.iter().filter(|byte| byte.is_ascii_alphanumeric()) {
            match self.text.get_mut(self.length) {
                Some(to) => *to = byte.to_ascii_lowercase(),
                None => return Self::EMPTY,
            }
            self.length += 1;
        }
        self
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

/// Returns the field with a name, as it is written in the log and in its common form.
///
/// If more than one name has the same meaning, the rank decides: what the server determined or what the client sent comes
/// before values that may have been changed on the way.
pub(super) fn field(written: &[u8], name: &Name) -> Field {
    let slot = |slot: Slot| slot.into();
    match name.as_bytes() {
        b"timelocal" | b"timeiso8601" | b"msec" | b"starttime" | b"startutc" | b"edgestarttimestamp" => {
            slot(Slot::Time(TimeForm::Any))
        }
        // Programs that ship logs often set this to the time at which they read the line.
        b"timestamp" if written == b"@timestamp" => Slot::Time(TimeForm::Any).rank(2),
        b"ts" | b"time" | b"timestamp" | b"datetime" => Slot::Time(TimeForm::Any).rank(1),
        b"date" => Slot::Time(TimeForm::Any).rank(2),

        // The address that the server determined, e.g. from a trusted header.
        b"clientip" | b"realip" | b"clienthost" | b"cip" | b"fwd" => slot(Slot::Peer),
        b"remoteaddr" | b"remoteip" | b"remotehost" | b"remoteaddress" | b"clientaddr" | b"clientaddress" => {
            Slot::Peer.rank(1)
        }
        b"client" | b"ip" | b"peer" | b"address" => Slot::Peer.rank(2),

        b"request" | b"requestline" | b"req" => slot(Slot::Request),
        b"requestmethod"
        | b"method"
        | b"httpmethod"
        | b"clientrequestmethod"
        | b"csmethod"
        | b"verb"
        | b"httprequestmethod" => slot(Slot::Method),
        // What the client sent. A server may rewrite `uri`.
        b"requesturi" | b"requesturl" | b"requestpath" | b"clientrequesturi" | b"csuri" | b"urloriginal" => {
            slot(Slot::Target)
        }
        b"uri" | b"url" | b"csuristem" => Slot::Path.rank(1),
        b"path" | b"documenturi" | b"urlpath" | b"clientrequestpath" => Slot::Path.rank(2),
        b"args" | b"querystring" | b"query" | b"requestquery" | b"csuriquery" | b"urlquery" => {
            slot(Slot::Query)
        }
        b"serverprotocol"
        | b"protocol"
        | b"proto"
        | b"requestprotocol"
        | b"clientrequestprotocol"
        | b"httpversion"
        | b"csversion"
        | b"csprotocolversion" => slot(Slot::Protocol),
        b"requesthost" | b"httphost" | b"clientrequesthost" | b"cshost" | b"xhostheader" | b"vhost" => {
            slot(Slot::Host)
        }
        b"host" | b"originalhost" => Slot::Host.rank(1),
        b"servername" | b"urldomain" => Slot::Host.rank(2),

        b"edgeresponsestatus" | b"downstreamstatus" | b"scstatus" | b"elbstatuscode" => slot(Slot::Status),
        b"status"
        | b"statuscode"
        | b"httpstatus"
        | b"httpstatuscode"
        | b"responsestatus"
        | b"httpresponsestatuscode" => Slot::Status.rank(1),
        b"responsecode" => Slot::Status.rank(2),

        // These must not include sizes with the response head, like `bytes_sent`.
        b"bodybytessent" | b"downstreamcontentsize" | b"edgeresponsebodybytes" | b"httpresponsebodybytes" => {
            slot(Slot::Bytes)
        }
        b"size" | b"bytes" => Slot::Bytes.rank(1),

        b"duration" if written == b"Duration" => slot(Slot::Duration(1_000_000_000)),
        b"duration" | b"requesttime" | b"reqtime" | b"latency" => slot(Slot::Duration(1)),
        b"durationms" | b"timetakenms" | b"responsetimems" | b"latencyms" => slot(Slot::Duration(1_000)),
        b"reqtimemicrosec" => slot(Slot::Duration(1_000_000)),
        b"timetaken" => slot(Slot::TimeTaken),
        b"timetofirstbyte" => slot(Slot::FirstByte(1)),
        b"edgetimetofirstbytems" => slot(Slot::FirstByte(1_000)),

        b"useragent"
        | b"httpuseragent"
        | b"requestuseragent"
        | b"csuseragent"
        | b"clientrequestuseragent"
        | b"useragentoriginal" => slot(Slot::Header(header::USER_AGENT)),
        b"agent" | b"ua" => Slot::Header(header::USER_AGENT).rank(1),
        b"referer"
        | b"referrer"
        | b"httpreferer"
        | b"httpreferrer"
        | b"requestreferer"
        | b"csreferer"
        | b"csreferrer"
        | b"clientrequestreferer"
        | b"httprequestreferrer" => slot(Slot::Header(header::REFERER)),
        b"xforwardedfor" | b"httpxforwardedfor" | b"clientrequestxforwardedfor" => {
            slot(Slot::Header(X_FORWARDED_FOR))
        }
        b"xff" | b"forwardedfor" => Slot::Header(X_FORWARDED_FOR).rank(1),
        b"forwarded" => slot(Slot::Header(header::FORWARDED)),
        b"xrealip" => slot(Slot::Header(HeaderName::from_static("x-real-ip"))),
        b"cfconnectingip" => slot(Slot::Header(HeaderName::from_static("cf-connecting-ip"))),
        b"trueclientip" => slot(Slot::Header(HeaderName::from_static("true-client-ip"))),
        b"cfipcountry" => slot(Slot::Header(HeaderName::from_static("cf-ipcountry"))),
        b"acceptlanguage" => slot(Slot::Header(header::ACCEPT_LANGUAGE)),
        b"cookie" => slot(Slot::Header(header::COOKIE)),
        _ => header_variable(written).into(),
    }
}

/// Returns the slot of a header that is named like in nginx (`http_accept_language`) or Traefik
/// (`request_Accept-Language`).
pub(super) fn header_variable(name: &[u8]) -> Slot {
    let is_traefik = |name: &&[u8]| name.first().is_some_and(u8::is_ascii_uppercase);
    let header = match name.strip_prefix(b"http_") {
        None => name.strip_prefix(b"request_").filter(is_traefik),
        header => header,
    };
    header.map_or(Slot::Skipped, header_slot)
}

/// Returns the slot of a header. Underscores stand for hyphens.
pub(super) fn header_slot(name: &[u8]) -> Slot {
    let mut buffer = [0; MAX_NAME];
    let Some(header) = buffer.get_mut(..name.len()) else { return Slot::Skipped };
    for (to, byte) in header.iter_mut().zip(name) {
        *to = if *byte == b'_' { b'-' } else { *byte };
    }
    HeaderName::from_bytes(header).map_or(Slot::Skipped, Slot::Header)
}
