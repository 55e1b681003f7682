//! Lines as the documentation of servers shows them: each is detected, and means what the server says.

use counter_layer::Outcome;
use counter_log::{Format, Header, Line, LogTimeZone, Parser};
use http::StatusCode;

use crate::support::BROWSER;

/// A log with its last line as a request on 10 October 2000.
struct Case {
    name: &'static str,
    log: String,
    peer: Option<&'static str>,
    target: &'static str,
    status: u16,
    agent: Agent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Agent {
    Browser,
    NotSent,
    NotRecorded,
}

/// 2000-10-10 20:55:36 in UTC.
const AT: u64 = 971_211_336;

fn case(
    name: &'static str,
    log: impl Into<String>,
    peer: impl Into<Option<&'static str>>,
    target: &'static str,
    status: u16,
    agent: Agent,
) -> Case {
    Case { name, log: log.into().replace("UA", BROWSER), peer: peer.into(), target, status, agent }
}

fn patterns() -> Vec<Case> {
    use Agent::{Browser, NotRecorded, NotSent};
    let common = r#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 7"#;
    let of = |name, log: String, agent| case(name, log, "192.0.2.1", "/a?b=c", 200, agent);
    vec![
        of("common", common.to_owned(), NotRecorded),
        of("combined", format!(r#"{common} "-" "UA""#), Browser),
        of("combined without a user agent", format!(r#"{common} "-" "-""#), NotSent),
        of(
            "a user name with a space",
            format!(r#"{common} "-" "UA""#).replace("- - [", "- jane doe ["),
            Browser,
        ),
        of("Jetty", format!(r#"{common}  "-" "UA" 12"#).replace("- - [", "-  -  ["), Browser),
        of(
            "Traefik's common format",
            format!(r#"{common} "-" "UA" 1 "web@docker" "http://10.0.0.3" 2ms"#),
            Browser,
        ),
        of("user agents without quotation marks", format!("{common} - UA"), Browser),
        of(
            "only user agents without quotation marks",
            format!(r#"{common} "https://example.com/" UA"#),
            Browser,
        ),
        of("vhost with a port", format!(r#"www.example.org:443 {common} "-" "UA""#), Browser),
        of("vhost", format!(r#"www.example.org {common} "-" "UA""#), Browser),
        of("vhost, common", format!("www.example.org {common}"), NotRecorded),
        of("a byte order mark", format!("\u{feff}{common} \"-\" \"UA\""), Browser),
        of("RFC 3164", format!(r#"<190>Oct 10 13:55:36 web-1 nginx: {common} "-" "UA""#), Browser),
        of(
            "RFC 5424",
            format!(r#"<190>1 2000-10-10T20:55:36Z web-1 nginx 7 - - {common} "-" "UA""#),
            Browser,
        ),
        of("Kubernetes", format!(r#"2000-10-10T20:55:36.1Z stdout F {common} "-" "UA""#), Browser),
        of(
            "Docker",
            format!(
                r#"{{"log":{:?},"stream":"stdout","time":"2000-10-10T20:55:36Z"}}"#,
                format!("{common} \"-\" \"UA\"\n")
            ),
            Browser,
        ),
        case(
            "an application load balancer of AWS",
            r#"https 2000-10-10T20:55:36.186641Z app/my-lb/50dc6c495c0c9188 192.0.2.1:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a?b=c HTTP/1.1" "UA" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337281" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678" 1 2000-10-10T20:55:36.100000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-""#,
            "192.0.2.1",
            "https://www.example.com:443/a?b=c",
            200,
            Browser,
        ),
        case(
            "an application load balancer of AWS, over IPv6",
            r#"h2 2000-10-10T20:55:36Z app/my-lb/50dc 2001:0db8:85a3:0000:0000:8a2e:0370:7334:443 - -1 -1 -1 460 - 0 0 "GET https://example.com:443/ HTTP/2.0" "-" - - - "-" "-" "-" 0 2000-10-10T20:55:36Z "-" "-" "-" "-" "-" "-" "-""#,
            "2001:db8:85a3::8a2e:370:7334",
            "https://example.com:443/",
            460,
            NotSent,
        ),
        case(
            "a classic load balancer of AWS",
            r#"2000-10-10T20:55:36.945958Z my-loadbalancer 192.0.2.1:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "UA" - -"#,
            "192.0.2.1",
            "http://www.example.com:80/",
            200,
            Browser,
        ),
        case(
            "S3",
            r#"79a59df900b949e5 awsexamplebucket1 [10/Oct/2000:20:55:36 +0000] 192.0.2.1 79a59df900b949e5 3E57427F33A59F07 REST.GET.OBJECT a "GET /a HTTP/1.1" 200 - 113 113 7 6 "-" "UA" - s9lzHYrFp76ZVxRcpX9 SigV2 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader awsexamplebucket1.s3.us-west-1.amazonaws.com TLSV1.2 - -"#,
            "192.0.2.1",
            "/a",
            200,
            Browser,
        ),
        case(
            "HAProxy",
            r#"Oct 10 20:55:36 localhost haproxy[14389]: 192.0.2.1:33317 [10/Oct/2000:20:55:36.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /a HTTP/1.1""#,
            "192.0.2.1",
            "/a",
            200,
            NotRecorded,
        ),
        case(
            "host names",
            r#"dsl-1.isp.example - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7 "-" "UA""#,
            None,
            "/a",
            200,
            Browser,
        ),
        case(
            "a list of addresses",
            r#"192.0.2.1, 10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7 "-" "UA""#,
            "192.0.2.1",
            "/a",
            200,
            Browser,
        ),
    ]
}

fn with_names() -> Vec<Case> {
    use Agent::{Browser, NotRecorded, NotSent};
    let caddy = |request: &str| {
        format!(
            r#"{{"level":"info","ts":"2000/10/10 20:55:36","logger":"http.log.access","request":{{"remote_ip":"10.0.0.7","client_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"h.example","uri":"/a?b"{request}}},"duration":0.001,"size":3,"status":200,"resp_headers":{{"Date":["x"]}}}}"#
        )
    };
    let w3c = |fields: &str, line: &str| format!("#Version: 1.0\n#Fields: {fields}\n{line}");
    let of = |name, log: String, agent| case(name, log, "192.0.2.1", "/a?b", 200, agent);
    vec![
        of("Caddy", caddy(r#","headers":{"User-Agent":["UA"]}"#), Browser),
        of("Caddy, without the header", caddy(r#","headers":{"Accept":["*/*"]}"#), NotSent),
        of("Caddy, without headers", caddy(""), NotRecorded),
        of(
            "Traefik",
            r#"{"ClientAddr":"192.0.2.1:3333","ClientHost":"192.0.2.1","DownstreamContentSize":5,"DownstreamStatus":200,"Duration":1234567,"OriginStatus":500,"RequestHost":"h.example","RequestMethod":"GET","RequestPath":"/a?b","RequestProtocol":"HTTP/2.0","StartUTC":"2000-10-10T20:55:36.123456789Z","request_User-Agent":"UA","time":"2000-10-10T22:55:37+02:00"}"#.to_owned(),
            Browser,
        ),
        of(
            "nginx",
            r#"{"time_iso8601":"2000-10-10T13:55:36-07:00","uri":"/index.php","request_uri":"/a?b","request_method":"GET","remote_addr":"10.0.0.7","clientip":"192.0.2.1","status":"200","User-Agent":"UA"}"#.to_owned(),
            Browser,
        ),
        of(
            "Cloudflare",
            r#"{"ClientIP":"192.0.2.1","ClientRequestHost":"example.com","ClientRequestMethod":"GET","ClientRequestURI":"/a?b","ClientRequestUserAgent":"","EdgeEndTimestamp":971211337000000000,"EdgeResponseBytes":69045,"EdgeResponseStatus":200,"EdgeStartTimestamp":971211336000000000,"RayID":"3a6050bcbe121a87"}"#.to_owned(),
            NotSent,
        ),
        case(
            "a load balancer of Google",
            r#"{"insertId":"1","jsonPayload":{"@type":"type.googleapis.com/google.cloud.loadbalancing.type.LoadBalancerLogEntry","statusDetails":"response_sent_by_backend"},"httpRequest":{"requestMethod":"GET","requestUrl":"http://www.example.com/a?b","requestSize":"577","status":200,"responseSize":"157","userAgent":"UA","remoteIp":"192.0.2.1","serverIp":"10.0.0.1","latency":"0.004s"},"resource":{"type":"http_load_balancer","labels":{"url_map_name":"a"}},"timestamp":"2000-10-10T20:55:36.123Z"}"#,
            "192.0.2.1",
            "http://www.example.com/a?b",
            200,
            Browser,
        ),
        of(
            "an application gateway of Azure",
            r#"{"timeStamp":"2000-10-10T20:55:36+00:00","resourceId":"/SUBSCRIPTIONS/A","operationName":"ApplicationGatewayAccess","category":"ApplicationGatewayAccessLog","properties":{"instanceId":"a","clientIP":"192.0.2.1","clientPort":46886,"httpMethod":"GET","requestUri":"/a","requestQuery":"b","userAgent":"UA","httpStatus":200,"httpVersion":"HTTP/1.1","receivedBytes":65,"sentBytes":553,"timeTaken":0.205,"host":"h.example"}}"#.to_owned(),
            Browser,
        ),
        of(
            "Pino",
            r#"{"level":30,"time":971211336000,"pid":1,"hostname":"web","req":{"id":1,"method":"GET","url":"/a?b","headers":{"host":"h.example","user-agent":"UA"},"remoteAddress":"192.0.2.1","remotePort":1},"res":{"statusCode":200,"headers":{"date":"x"}},"responseTime":5,"msg":"request completed"}"#.to_owned(),
            Browser,
        ),
        of(
            "Elastic Common Schema",
            r#"{"@timestamp":"2000-10-10T20:55:36Z","client":{"ip":"192.0.2.1"},"http":{"request":{"method":"GET"},"response":{"status_code":200,"body":{"bytes":7}}},"url":{"original":"/a?b","path":"/a"},"user_agent":{"original":"UA"}}"#.to_owned(),
            Browser,
        ),
        of(
            "LTSV",
            "time:[10/Oct/2000:13:55:36 -0700]\thost:192.0.2.1\treq:GET /a?b HTTP/1.1\tstatus:200\tsize:7\treferer:-\tua:UA\treqtime:0.001\tvhost:h.example".to_owned(),
            Browser,
        ),
        of(
            "Heroku",
            r#"2000-10-10T20:55:36+00:00 heroku[router]: at=info method=GET path="/a?b" host=h.example request_id=7 fwd="192.0.2.1" dyno=web.1 connect=1ms service=18ms status=200 bytes=13 protocol=https"#.to_owned(),
            NotRecorded,
        ),
        of(
            "IIS",
            w3c(
                "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken",
                &format!("2000-10-10 20:55:36 10.0.0.1 GET /a b 443 - 192.0.2.1 {} - 200 0 0 85", BROWSER.replace(' ', "+")),
            ),
            Browser,
        ),
        of(
            "W3C, in capitals and without a user agent",
            w3c("Date Time C-IP CS-METHOD CS-URI SC-STATUS", "2000-10-10 20:55:36 192.0.2.1 GET /a?b 200"),
            NotRecorded,
        ),
        of(
            "IIS Advanced Logging",
            w3c(
                "date-local time-local s-ip cs-method cs-uri-stem cs-uri-query c-ip cs(User-Agent) sc-status TimeTakenMS",
                r#"2000-10-10 20:55:36.363 10.10.28.140 GET /a b "192.0.2.1" "UA" 200 109"#,
            ),
            Browser,
        ),
        of(
            "CloudFront",
            w3c(
                "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query",
                &format!(
                    "2000-10-10\t20:55:36\tFRA2\t99\t192.0.2.1\tGET\td1.cloudfront.net\t/a\t200\t-\t{}\tb",
                    BROWSER.replace(' ', "%2520")
                ),
            ),
            Browser,
        ),
    ]
}

fn agent(line: &Line<'_>) -> Agent {
    match line.user_agent() {
        Header::Sent(text) if text == BROWSER.as_bytes() => Agent::Browser,
        Header::Sent(text) => panic!("{}", String::from_utf8_lossy(text)),
        Header::NotSent => Agent::NotSent,
        Header::NotRecorded => Agent::NotRecorded,
    }
}

#[test]
fn documented_lines_are_detected_and_mean_what_the_server_says() {
    for Case { name, log, peer, target, status, agent: expected } in
        patterns().into_iter().chain(with_names())
    {
        let format = Format::detect(log.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut parser = Parser::new(format);
        let lines: Vec<_> = log.lines().collect();
        let (last, before) = lines.split_last().expect("a line");
        for directive in before {
            assert!(parser.parse(directive.as_bytes()).expect(name).is_none(), "{name}");
        }
        let line = parser.parse(last.as_bytes()).expect(name).expect(name);
        assert_eq!(line.at.as_unix(), AT, "{name}");
        assert_eq!(line.method, Some(&b"GET"[..]), "{name}");
        assert_eq!(String::from_utf8_lossy(line.target), target, "{name}");
        assert_eq!(
            line.outcome,
            Outcome::Responded(StatusCode::from_u16(status).expect("a status")),
            "{name}"
        );
        assert_eq!(line.peer.map(|peer| peer.to_string()).as_deref(), peer, "{name}");
        assert!(agent(&line) == expected, "{name}");
    }
}

#[test]
fn the_order_of_fields_does_not_matter() {
    let members = [
        r#""time":"2000-10-10T20:55:36Z""#,
        r#""request_uri":"/a""#,
        r#""uri":"/index.php""#,
        r#""client_ip":"192.0.2.1""#,
        r#""remote_addr":"10.0.0.7""#,
        r#""agent":"Filebeat""#,
        r#""http_user_agent":"a/1""#,
        r#""@timestamp":"2000-10-10T20:59:59Z""#,
        r#""status":200"#,
    ];
    for rotation in 0..members.len() {
        let mut members = members;
        members.rotate_left(rotation);
        for _ in 0..2 {
            let text = format!("{{{}}}", members.join(","));
            let mut parser = Parser::new(Format::json());
            let line = parser.parse(text.as_bytes()).expect("it fits").expect("a request");
            assert_eq!((line.at.as_unix(), line.target), (AT, &b"/a"[..]), "{text}");
            assert_eq!(line.peer, Some([192, 0, 2, 1].into()), "{text}");
            assert_eq!(line.user_agent(), Header::Sent(&b"a/1"[..]), "{text}");
            members.reverse();
        }
    }
}

#[test]
fn names_are_compared_without_case_and_separators() {
    for name in
        ["User-Agent", "userAgent", "USER_AGENT", "user_agent", "ua", "http_user_agent", "request_User-Agent"]
    {
        let text = format!(r#"{{"Time":"2000-10-10T20:55:36Z","URL":"/","{name}":"a/1"}}"#);
        let mut parser = Parser::new(Format::json());
        let line = parser.parse(text.as_bytes()).expect("it fits").expect("a request");
        assert_eq!(line.user_agent(), Header::Sent(&b"a/1"[..]), "{name}");
    }
}

#[test]
fn local_times_are_in_the_zone_of_the_log() {
    let zone: LogTimeZone = "America/Los_Angeles".parse().expect("a zone");
    let log = "#Fields: date-local time-local cs-method cs-uri sc-status\n2000-10-10 13:55:36 GET / 200";
    let mut parser = Parser::new(Format::w3c()).time_zone(zone);
    let mut found = None;
    for line in log.lines() {
        found = parser.parse(line.as_bytes()).expect("it fits").map(|line| line.at.as_unix());
    }
    assert_eq!(found, Some(AT));
}
