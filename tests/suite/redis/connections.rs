//! Tests for the ways to connect to a server.

use std::path::Path;
use std::time::Duration;

use counter_core::archive::Archive;
use counter_core::document::DocumentStore;
use counter_core::source::Commit;
use counter_core::unstable::OwnClient;
use counter_core::unstable::fred::interfaces::ClientLike;
use counter_core::unstable::fred::prelude::{Builder, Config, TlsConnector};
use counter_core::unstable::fred::rustls::crypto::ring;
use counter_core::unstable::fred::rustls::pki_types::pem::PemObject;
use counter_core::unstable::fred::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use counter_core::unstable::fred::rustls::{ClientConfig, RootCertStore};
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::Read;
use counter_core::visits::{Agent, Bin, Distribution, Measure, Measured};
use counter_core::{Counters, MemoryStore, RedisStore, Timestamp};
use tests::cluster::RedisCluster;
use tests::process::example_command;
use tests::tls::{Certificates, TlsRedis};
use tests::{RedisServer, until};

use crate::support::{count_at, listed, name, precision};

const LIMIT: Duration = tests::LIMIT;

/// The guide page. We run the `ACL SETUSER` line exactly as it is printed there.
pub(crate) const PAGE: &str = include_str!("../../../counter-core/src/guide/redis.rs");

/// Counts, cleans and reads via this store, and checks that nothing is rejected.
async fn assert_it_counts(store: RedisStore) {
    let there = async || store.known(listed(&[precision(1)], "", 1)).await.is_ok();
    until("the store is connected", LIMIT, there).await;
    let counters = Counters::builder(store.clone()).distributions(Distribution::precisions());
    let counters = counters.build().expect("good settings");
    let (recorder, stats, key) = (counters.recorder(), counters.stats(), VisitorKey::new([7; 16]));
    let sources = counters.sources();
    let salt = recorder.salt().expect("an hour and a day");
    let (mut flusher, mut cleaner) = counters.into_parts();
    let counter = recorder.counter("hits");
    for n in 0..500_u32 {
        recorder.request(&[counter.hit().visitor(key.visitor(&[&n.to_le_bytes()]))], Agent::Human);
    }
    _ = salt.visitor(&[b"ann"]);
    let time = [Bin::time(Duration::from_millis(5))];
    recorder.measure_at(Measured { hits: &[counter.hit()], bins: &time }, Timestamp::now());
    flusher.flush().await.expect("it accepts batches");
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.dropped.total()), (500, 0), "{hits:?}");
    let mut source = sources.open("log".parse().expect("a name")).await.expect("the server replies");
    source.record(0..1, Timestamp::now(), &[recorder.counter("of a log").hit()]);
    assert_eq!(source.close().await.expect("it accepts batches"), Commit::Done);
    let hits = source.ledger().hits;
    assert_eq!((hits.applied, hits.dropped.total()), (1, 0), "{hits:?}");
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    let total = stats.total(&name("hits"), precision(86_400), range.clone()).await;
    assert_eq!(total.expect("readable"), 500);
    let uniques = stats.uniques(&[name("hits")], precision(86_400), range).await.expect("readable");
    assert!((490..=510).contains(&uniques.visitors), "{uniques:?}");
    // Reads of many buckets find out first which of them exist.
    let (both, hours) = ([name("hits"), name("other")], now.minus(118 * 3600)..now.plus(1));
    let uniques = stats.uniques(&both, precision(3600), hours.clone()).await.expect("readable");
    assert!((490..=510).contains(&uniques.visitors), "{uniques:?}");
    let times = stats.distribution(&both, precision(3600), hours, Measure::Time).await.expect("readable");
    assert_eq!((times.buckets.len(), times.unreadable.len()), (1, 0), "{times:?}");
    let archive = Archive::new(store.clone(), MemoryStore::new());
    let copied = archive.copier(stats.grid()).copy_once(now).await.expect("it is readable");
    assert_eq!(copied.unreadable, 0);
    let long_ago = ["long ago", "label:referrer:long ago"].map(str::to_owned);
    count_at(&store, &long_ago, now.minus(400 * 86_400)).await;
    let cleaned = cleaner.clean_once(now).await.expect("it cleans");
    assert_eq!(cleaned.counters, 14);
    assert!(store.replace("a", 0, b"content").await.expect("it takes documents").is_some());
}

/// Returns the words of the first line of a guide page that starts with this text.
pub(crate) fn guide_line(page: &str, prefix: &str) -> Vec<String> {
    let lines = page.lines().map(|line| line.trim_start_matches("//!").trim());
    let line = lines.into_iter().find(|line| line.starts_with(prefix)).expect("the guide contains the line");
    line.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_permissions_in_the_guide_are_sufficient_and_necessary() {
    let server = RedisServer::start();
    for prefix in ["ACL SETUSER counter", "ACL SETUSER plain"] {
        let words = guide_line(PAGE, prefix);
        assert_eq!(server.command(&words).text().as_deref(), Some("OK"), "{words:?}");
        let user = &words[2];
        let url = format!("redis://{user}:secret@127.0.0.1:{}", server.port());
        let builder = RedisStore::builder();
        assert_it_counts(builder.connect(&url).await.expect("an address")).await;
        server.command(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn the_url_selects_the_database_number() {
    let server = RedisServer::start();
    let url = format!("{}/3", server.url());
    let store = RedisStore::builder().connect(&url).await.expect("an address");
    let mut counters = Counters::builder(store).build().expect("good settings");
    counters.recorder().record(counters.recorder().counter("hits"), None);
    counters.flush().await.expect("it accepts batches");
    assert_eq!(server.int(&["DBSIZE"]), 0);
    let keyspace = server.command(&["INFO", "keyspace"]).text().expect("a text");
    assert!(keyspace.contains("db3:keys="), "{keyspace}");
}

#[tokio::test]
async fn the_url_can_be_a_unix_socket() {
    let server = RedisServer::start();
    let store = RedisStore::builder().connect(&server.socket_url()).await.expect("an address");
    assert_it_counts(store).await;
}

/// Builds a TLS configuration like the guide: with a private authority, and optionally with a client
/// certificate.
fn over_tls(url: &str, certificates: &Certificates, own: bool) -> Config {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(certificates.authority()).expect("a file") {
        roots.add(authority.expect("a certificate")).expect("good");
    }
    let tls = ClientConfig::builder_with_provider(ring::default_provider().into());
    let tls =
        tls.with_safe_default_protocol_versions().expect("ring supports them").with_root_certificates(roots);
    let tls = if own {
        let chain = vec![CertificateDer::from_pem_file(certificates.client()).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_file(certificates.client_key()).expect("a key");
        tls.with_client_auth_cert(chain, key).expect("they belong together")
    } else {
        tls.with_no_client_auth()
    };
    let mut config = Config::from_url(&url.replacen("rediss", "redis", 1)).expect("an address");
    config.tls = Some(TlsConnector::from(tls).into());
    config
}

#[tokio::test]
async fn tls_supports_a_private_authority_and_client_certificates() {
    for (server, own) in [(TlsRedis::start(), false), (TlsRedis::start_mutual(), true)] {
        let config = over_tls(&server.url(), server.certificates(), own);
        assert_it_counts(RedisStore::builder().connect_with(config).await.expect("good")).await;
    }
}

/// The tests compile ring and aws-lc-rs, like an application that uses the other one, so rustls can't choose.
#[tokio::test]
async fn an_address_is_enough_if_the_system_trusts_the_certificate() {
    let server = TlsRedis::start();
    server.server().command(&["HSET", "access:count:60:hits", "60", "1"]);
    let folder = tempfile::tempdir().expect("there is space");
    let url = server.url().replace("127.0.0.1", "localhost");
    let dump = async |authority: &Path| {
        let mut command = example_command().await;
        command.args(["dump", "--store", &url]).arg(folder.path().join("dump.ndjson"));
        // The folder would be read as well.
        command.env("SSL_CERT_FILE", authority).env_remove("SSL_CERT_DIR").output().expect("it starts")
    };
    let none = folder.path().join("none.crt");
    std::fs::write(&none, "").expect("there is space");
    let output = dump(&none).await;
    let message = String::from_utf8_lossy(&output.stderr);
    let reasons = ["failed to set up TLS", "no certificate authority found on this system"];
    assert!(reasons.iter().all(|reason| message.contains(reason)), "{message}");
    let output = dump(&server.certificates().authority()).await;
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn an_untrusted_server_gets_no_hits_and_the_reason_is_reported() {
    let server = TlsRedis::start();
    let strangers = Certificates::make();
    let by_strangers = RedisStore::builder().connect_with(over_tls(&server.url(), &strangers, false));
    let by_strangers = by_strangers.await.expect("good");
    let by_the_system = RedisStore::builder().connect(&server.url()).await.expect("an address");
    for store in [by_strangers, by_the_system] {
        let mut counters = Counters::builder(store).build().expect("good settings");
        counters.recorder().record(counters.recorder().counter("hits"), None);
        let stats = counters.stats();
        let told = async || {
            assert!(counters.flush().await.is_err());
            stats.health().last_error.is_some_and(|error| error.to_lowercase().contains("certificate"))
        };
        until("the reason is reported", LIMIT, told).await;
        assert_eq!((stats.ledger().hits.pending, server.server().int(&["DBSIZE"])), (1, 0));
    }
}

#[tokio::test]
async fn custom_configurations_and_clients_are_accepted() {
    let server = RedisServer::start();
    let config = Config::from_url(&server.url()).expect("an address");
    assert_it_counts(RedisStore::builder().connect_with(config.clone()).await.expect("good")).await;
    server.command(&["FLUSHALL"]);
    let client = Builder::from_config(config).build().expect("good");
    client.init().await.expect("it exists");
    assert_it_counts(RedisStore::builder().client(client.clone())).await;
    server.command(&["FLUSHALL"]);
    server.command(&["ACL", "SETUSER", "default", "-@scripting"]);
    assert_it_counts(RedisStore::builder().client(client)).await;
}

#[tokio::test]
async fn a_cluster_is_discovered_from_any_node_with_either_url_scheme() {
    let cluster = RedisCluster::start();
    for scheme in ["redis-cluster", "redis+cluster"] {
        let url = format!("{scheme}://{}", cluster.node(2).address());
        let builder = RedisStore::builder().namespace(format!("{scheme}:").parse().expect("a namespace"));
        assert_it_counts(builder.connect(&url).await.expect("an address")).await;
    }
}

#[tokio::test]
async fn server_facts_and_capabilities_are_reported() {
    let server = RedisServer::start();
    let store = RedisStore::builder().connect(&server.url()).await.expect("an address");
    let facts = store.server().await.expect("the server replies");
    assert!(facts.version.as_deref().is_some_and(|version| version.contains('.')), "{facts:?}");
    assert_eq!((facts.cluster, facts.scripts), (Some(false), true));
    server.command(&["ACL", "SETUSER", "default", "-eval", "-evalsha", "-info"]);
    let facts = store.server().await.expect("the server replies");
    assert_eq!((&facts.version, facts.cluster, facts.scripts), (&None, None, false));
    assert_eq!((facts.transactions, facts.max_memory, &facts.eviction), (true, None, &None));
    assert!(facts.warnings().is_empty(), "{facts:?}");
    let cluster = RedisCluster::start();
    let store = RedisStore::builder().connect(&cluster.url()).await.expect("an address");
    assert_eq!(store.server().await.expect("the server replies").cluster, Some(true));
}

#[tokio::test]
async fn an_unsafe_eviction_policy_is_reported() {
    let server = RedisServer::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]);
    let store = RedisStore::builder().connect(&server.url()).await.expect("an address");
    let facts = store.server().await.expect("the server replies");
    assert_eq!((facts.max_memory, facts.eviction.as_deref()), (Some(100 << 20), Some("noeviction")));
    assert!(facts.warnings().is_empty(), "{facts:?}");
    for policy in ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"] {
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let facts = store.server().await.expect("the server replies");
        let warnings = facts.warnings();
        assert!(matches!(&warnings[..], [warning] if warning.contains(policy)), "{facts:?}");
    }
    // Without a memory limit, the server does not evict anything.
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(store.server().await.expect("the server replies").warnings().is_empty());
}

#[tokio::test]
async fn an_invalid_url_is_rejected_without_revealing_the_password() {
    for url in
        ["", "127.0.0.1:6379", "http://127.0.0.1", "redis-sentinel://127.0.0.1:1", "redis://:secret@:x"]
    {
        let error = RedisStore::builder().connect(url).await.expect_err("no address");
        let cause = std::error::Error::source(&error).expect("fred says why");
        let words = format!("{error}: {cause} {error:?}");
        assert!(!words.contains("secret"), "{words}");
    }
}
