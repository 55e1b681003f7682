//! The rules of documents that writers rely on in every store.

use counter_core::document::DocumentStore;
use futures_util::future::join_all;

use crate::stores;

stores::on! {
    [memory redis redis_without_scripts redis_in_shards cluster sqlite sqlite_in_memory postgres mariadb]
    {
        a_document_is_replaced_only_by_who_has_seen_it
        of_many_that_replace_it_at_once_one_succeeds
        names_are_apart
        no_two_contents_have_the_same_version
    }
}

async fn a_document_is_replaced_only_by_who_has_seen_it(store: impl DocumentStore) {
    let empty = store.read("a").await.expect("readable");
    assert_eq!((empty.version, &*empty.content), (0, &b""[..]));
    assert!(!store.replace("a", 1, b"early").await.expect("it answers"));
    assert!(store.replace("a", 0, b"first \0 \xff").await.expect("it answers"));
    assert!(!store.replace("a", 0, b"late").await.expect("it answers"));
    let first = store.read("a").await.expect("readable");
    assert_eq!(first.content, b"first \0 \xff");
    let long = vec![b'x'; 300_000];
    assert!(store.replace("a", first.version, &long).await.expect("it answers"));
    assert!(!store.replace("a", first.version, b"late").await.expect("it answers"));
    assert_eq!(store.read("a").await.expect("readable").content, long);
}

async fn of_many_that_replace_it_at_once_one_succeeds(store: impl DocumentStore) {
    let mut version = 0;
    for round in 0..5 {
        let texts: Vec<_> = (0..8).map(|writer| format!("{round} by {writer}")).collect();
        let all = join_all(texts.iter().map(|text| store.replace("a", version, text.as_bytes()))).await;
        let succeeded: Vec<_> = all
            .into_iter()
            .zip(&texts)
            .filter_map(|(answer, text)| answer.expect("it answers").then_some(text.as_bytes()))
            .collect();
        let found = store.read("a").await.expect("readable");
        assert_eq!(vec![&*found.content], succeeded);
        version = found.version;
    }
}

async fn names_are_apart(store: impl DocumentStore) {
    let long = "b".repeat(128);
    assert!(store.replace("a", 0, b"of a").await.expect("it answers"));
    assert!(store.replace(&long, 0, b"of b").await.expect("it answers"));
    let version = store.read(&long).await.expect("readable").version;
    assert!(store.replace(&long, version, b"of b, later").await.expect("it answers"));
    assert_eq!(store.read("a").await.expect("readable").content, b"of a");
    assert_eq!(store.read(&long).await.expect("readable").content, b"of b, later");
    assert_eq!(store.read("A").await.expect("readable").version, 0);
}

async fn no_two_contents_have_the_same_version(store: impl DocumentStore) {
    let mut versions = Vec::new();
    // As after failovers that lost all replacements: the first ones of several documents.
    for name in ["a", "b", "c"] {
        for content in ["first", "second"] {
            let seen = store.read(name).await.expect("readable").version;
            assert!(store.replace(name, seen, content.as_bytes()).await.expect("it answers"));
            versions.push(store.read(name).await.expect("readable").version);
        }
    }
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), 6, "{versions:?}");
    assert!(versions.iter().all(|version| (1..=u64::MAX / 2).contains(version)));
}
