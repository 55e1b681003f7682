//! The country of an address in a database.

use std::convert::Infallible;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::{
    AccessCounterLayer, Address, CountryDatabase, CountryDatabaseError, Forwarded, Identity, Label,
};
use counter_log::{Decision, Format, LogCounter, Parser};
use http::{Request, Response};
use tempfile::TempDir;
use tests::mmdb::{Data, country, database};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{BROWSER, clf};

const KEY: counter_core::visitor::VisitorKey = counter_core::visitor::VisitorKey::new([7; 16]);

fn networks() -> Vec<((&'static str, u8), Data)> {
    let registered = Data::Map(vec![("registered_country", Data::Map(vec![("iso_code", Data::Text("FR"))]))]);
    let flat = |field| Data::Map(vec![(field, Data::Text("at"))]);
    vec![
        (("192.0.2.0", 25), country("CH")),
        (("192.0.2.128", 26), registered),
        (("192.0.2.192", 27), flat("country_code")),
        (("192.0.2.224", 27), flat("country")),
        (("198.51.100.0", 24), country("ZZ")),
        (("203.0.113.0", 24), country("Atlantis")),
        (("2001:db8::", 33), country("NO")),
    ]
}

fn write(path: &Path, networks: &[((&str, u8), Data)]) {
    // Like a good update: readers see either the old or the new file.
    let new = path.with_extension("new");
    fs::write(&new, database("Test-Country", networks)).expect("room on the disk");
    fs::rename(new, path).expect("the same folder");
}

fn forwarded() -> Address {
    Identity::forwarded(Forwarded::X_FORWARDED_FOR)
        .trusted_networks(["10.0.0.0/8".parse().expect("a network")])
}

/// Requests by country, as served by the layer and as read from a log.
async fn counted(database: &CountryDatabase, requests: &[(&str, Option<&str>)]) -> [Vec<(String, u64)>; 2] {
    let mut all = Vec::new();
    for from_log in [false, true] {
        let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
        let layer = AccessCounterLayer::new(counters.recorder());
        let layer = layer.labels([Label::country_from(database, forwarded())]).expect("a label");
        let mut log = LogCounter::new(&layer);
        let pattern = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{X-Forwarded-For}i""#;
        let mut parser = Parser::new(Format::pattern(pattern).expect("a pattern"));
        for (peer, header) in requests {
            if from_log {
                let (at, header) = (clf(Timestamp::now()), header.unwrap_or("-"));
                let line =
                    format!("{peer} - - [{at}] \"GET / HTTP/1.1\" 200 7 \"-\" \"{BROWSER}\" \"{header}\"");
                let line = parser.parse(line.as_bytes()).expect("a good line").expect("not empty");
                let Decision::Counted { hits, agent, .. } = log.decide(&line, KEY) else { panic!("{peer}") };
                counters.recorder().request(hits, agent);
            } else {
                let peer: IpAddr = peer.parse().expect("an address");
                let request = Request::get("/").header("user-agent", BROWSER);
                let request =
                    header.iter().fold(request, |request, header| request.header("x-forwarded-for", *header));
                let request = request.extension(SocketAddr::new(peer, 1000)).body(()).expect("a request");
                let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
                service.oneshot(request).await.expect("infallible");
            }
        }
        counters.flush().await.expect("memory takes all");
        let (day, now) = (counter_core::Precision::DAY, Timestamp::now());
        let countries = counters.stats().label("country", day, now.minus(86_400)..now.plus(1), 10).await;
        let countries = countries.expect("memory can be read");
        let none = Some(("(none)".to_owned(), countries.none)).filter(|(_, none)| *none > 0);
        all.push(countries.values.into_iter().chain(none).collect());
    }
    all.try_into().expect("two")
}

fn of(countries: &[(&str, u64)]) -> [Vec<(String, u64)>; 2] {
    let countries: Vec<_> = countries.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect();
    [countries.clone(), countries]
}

#[tokio::test]
async fn an_address_counts_for_its_country() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("countries.mmdb");
    write(&path, &networks());
    let database = CountryDatabase::open(&path).expect("a database");
    for (peer, header, expected) in [
        ("192.0.2.7", None, "CH"),
        ("192.0.2.127", None, "CH"),
        ("::ffff:192.0.2.7", None, "CH"),
        // The network has no country, but it is registered in one.
        ("192.0.2.130", None, "FR"),
        // Databases of other providers have flat fields.
        ("192.0.2.200", None, "AT"),
        ("192.0.2.230", None, "AT"),
        ("2001:db8::7", None, "NO"),
        ("2001:db8:8000::7", None, "(none)"),
        ("198.51.100.7", None, "(none)"),
        ("203.0.113.7", None, "(none)"),
        ("127.0.0.1", None, "(none)"),
        // The address is that of the client, if the proxy is trusted.
        ("10.0.0.1", Some("192.0.2.7"), "CH"),
        ("192.0.2.7", Some("2001:db8::7"), "CH"),
        ("10.0.0.1", Some("unknown"), "(none)"),
    ] {
        // The second request finds the country in a cache.
        let requests = [(peer, header); 2];
        assert_eq!(counted(&database, &requests).await, of(&[(expected, 2)]), "{peer} {header:?}");
    }
    let stored = counted(&database, &[("192.0.2.7", None), ("2001:db8::7", None)]).await;
    assert_eq!(stored, of(&[("CH", 1), ("NO", 1)]));
}

#[tokio::test]
async fn a_changed_database_is_read_again_and_a_damaged_one_is_not_used() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("countries.mmdb");
    write(&path, &networks());
    let database = CountryDatabase::open(&path).expect("a database");
    let requests = [("192.0.2.7", None)];
    assert_eq!(counted(&database, &requests).await, of(&[("CH", 1)]));
    assert!(!database.reload().expect("it is the same"));

    write(&path, &[(("192.0.2.0", 24), country("LI"))]);
    assert!(database.reload().expect("a database"));
    assert_eq!(counted(&database.clone(), &requests).await, of(&[("LI", 1)]), "the cache is not older");
    assert!(!database.reload().expect("it is the same"));

    let good = fs::read(&path).expect("the database");
    fs::write(&path, &good[..good.len() / 2]).expect("room on the disk");
    let error = database.reload().expect_err("half of a file");
    assert!(matches!(error, CountryDatabaseError::Malformed(..)), "{error}");
    assert!(error.to_string().contains("countries.mmdb is damaged"), "{error}");
    assert_eq!(counted(&database, &requests).await, of(&[("LI", 1)]));
    fs::remove_file(&path).expect("the file");
    assert!(matches!(database.reload(), Err(CountryDatabaseError::Io(..))));
    assert_eq!(counted(&database, &requests).await, of(&[("LI", 1)]));

    write(&path, &networks());
    assert!(database.reload().expect("a database"));
    assert_eq!(counted(&database, &requests).await, of(&[("CH", 1)]));
}

#[test]
fn a_file_without_countries_is_rejected() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("asn.mmdb");
    assert!(matches!(CountryDatabase::open(&path), Err(CountryDatabaseError::Io(..))));
    let asn = Data::Map(vec![("autonomous_system_number", Data::U32(64_496))]);
    fs::write(&path, tests::mmdb::database("GeoLite2-ASN", &[(("192.0.2.0", 24), asn)])).expect("room");
    let error = CountryDatabase::open(&path).expect_err("no countries");
    assert!(error.to_string().contains("asn.mmdb has no countries: its type is GeoLite2-ASN"), "{error}");
    fs::write(&path, "country,network\nCH,192.0.2.0/24\n").expect("room");
    let error = CountryDatabase::open(&path).expect_err("not a database");
    assert!(error.to_string().contains("asn.mmdb is damaged, or not in the MaxMind DB format"), "{error}");
}
