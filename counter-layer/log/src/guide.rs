//! Formats and field names, and what happens if a field is missing.
//!
//! # Formats
//!
//! | name | written by |
//! |---|---|
//! | `combined`, `common` | Apache, nginx, Traefik, Jetty |
//! | `vhost_combined`, `vhost`, `vhost_common` | Apache, with the name of the site (and the port) first |
//! | `main` | nginx, with `X-Forwarded-For` at the end |
//! | `unquoted_agent`, `unquoted` | servers that leave out the quotation marks of the user agent, or of both headers |
//! | `w3c` | IIS, including Advanced Logging, and CloudFront |
//! | `json`, also `caddy`, `nginx`, `traefik`, `cloudflare`, `google`, `azure` | Caddy, nginx with `escape=json`, Traefik, Cloudflare Logpush, the load balancers of Google and Azure, Bunyan and Pino, the Elastic Common Schema |
//! | `alb`, `elb`, `s3` | application and classic load balancers of AWS, and its S3 |
//! | `haproxy` | HAProxy with `option httplog` |
//! | `ltsv` | labels and values, separated by tabs |
//! | `logfmt` | names and values like `status=200`, e.g. by Heroku |
//!
//! All of these are [detected](crate::Format::detect) from the first lines. Other formats can be copied from the
//! configuration: see [`Format::pattern`](crate::Format::pattern) and [`Format::log_format`](crate::Format::log_format).
//!
//! A prefix of syslog (RFC 3164 and 5424, or with an ISO time) or of a container in Kubernetes is ignored, as well as the
//! JSON object that Docker writes around a line.
//!
//! ```
//! use counter_log::{Format, Header, Parser};
//!
//! let line = br#"Oct 10 13:55:36 web-1 nginx: 192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 7"#;
//! let mut parser = Parser::new(Format::detect(line)?);
//! let line = parser.parse(line)?.expect("not a comment");
//! assert_eq!(line.at.as_unix(), 971_211_336);
//! assert_eq!(line.user_agent(), Header::NotRecorded);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Names
//!
//! In formats with names, a field can have any of these, or the name that one of the servers above uses. They are compared
//! without case, `-` and `_`, so `User-Agent` is the same as `userAgent`.
//!
//! | field | names, by precedence |
//! |---|---|
//! | time | `time_local`, `time_iso8601`, `msec`, `start_time`; `time`, `ts`, `timestamp`, `datetime`; `@timestamp`, `date` |
//! | client address | `client_ip`, `real_ip`; `remote_addr`, `remote_ip`, `client_address`; `client`, `ip`, `address` |
//! | request | `request` (the whole line), or `method` with `request_uri`, `request_url`, `request_path`; `uri`, `url`; `path` |
//! | query | `query`, `query_string`, `args`, unless the target already contains it |
//! | site | `request_host`, `vhost`; `host`; `server_name` |
//! | status | `status`, `status_code`, `http_status`, `response_status`; `response_code` |
//! | size of the body | `body_bytes_sent`; `size`, `bytes` |
//! | duration | `duration`, `request_time`, `latency` in seconds, `duration_ms`, `latency_ms` in milliseconds, `time_taken` in seconds with a fraction or in milliseconds |
//! | headers | `user_agent`, `agent`, `ua`; `referer`, `referrer`; `x_forwarded_for`, `xff`; `accept_language`; `http_…` for any header |
//!
//! If a line contains more than one of these, their order in the line does not matter. What the server determined comes
//! before what it received from a proxy, and what the client sent before what the server rewrote.
//!
//! # Missing fields
//!
//! A field that is not part of the log is not the same as a header that the client did not send, which a log contains as
//! `-` or an empty text:
//!
//! | not part of the log | effect |
//! |---|---|
//! | user agent | the client may be a [person or a bot](counter_core::visits::Agent::Unknown); visitors are distinguished by their address alone |
//! | another header | its labels count `(not recorded)` |
//! | address, or a host name in its place | the request has no visitor |
//! | method, status | there is no facet; rules treat the request like a `GET` request |
//! | time zone | UTC, or the zone that is set with [`Import::time_zone`](crate::Import::time_zone) |
//!
//! A [`Report`](crate::Report) contains the number of these lines.
