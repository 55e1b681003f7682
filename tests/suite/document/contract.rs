//! Contract tests for documents: guarantees that writers can rely on.

use counter_core::document::DocumentStore;
use futures_util::future::join_all;

use crate::stores;

stores::on! {
    [memory redis redis_without_scripts redis_in_shards cluster sqlite sqlite_in_memory postgres mariadb]
    {
        replacing_a_document_requires_the_current_version
        one_of_many_concurrent_replacements_succeeds
        documents_with_different_names_are_independent
        a_document_is_read_again_only_if_it_changed
        different_contents_have_different_versions
    }
}

async fn replacing_a_document_requires_the_current_version(store: impl DocumentStore) {
    let empty = store.read("a").await.expect("readable");
    assert_eq!((empty.version, &*empty.content), (0, &b""[..]));
    let replace = async |version, content: &[u8]| {
        store.replace("a", version, content).await.expect("the server replies")
    };
    assert_eq!(replace(1, b"early").await, None);
    let first = replace(0, b"first \0 \xff").await.expect("it was not created before");
    assert_eq!(replace(0, b"late").await, None);
    let found = store.read("a").await.expect("readable");
    assert_eq!((found.version, &*found.content), (first, &b"first \0 \xff"[..]));
    let long = vec![b'x'; 300_000];
    let second = replace(first, &long).await.expect("it was not created before");
    assert_eq!(replace(first, b"late").await, None);
    let found = store.read("a").await.expect("readable");
    assert_eq!((found.version, found.content), (second, long));
}

async fn one_of_many_concurrent_replacements_succeeds(store: impl DocumentStore) {
    let mut version = 0;
    for round in 0..5 {
        let texts: Vec<_> = (0..8).map(|writer| format!("{round} by {writer}")).collect();
        let all = join_all(texts.iter().map(|text| store.replace("a", version, text.as_bytes()))).await;
        let succeeded: Vec<_> = all
            .into_iter()
            .zip(&texts)
            .filter_map(|(answer, text)| answer.expect("the server replies").map(|_| text.as_bytes()))
            .collect();
        let found = store.read("a").await.expect("readable");
        assert_eq!(vec![&*found.content], succeeded);
        version = found.version;
    }
}

async fn documents_with_different_names_are_independent(store: impl DocumentStore) {
    let long = "b".repeat(128);
    assert!(store.replace("a", 0, b"of a").await.expect("the server replies").is_some());
    let version = store
        .replace(&long, 0, b"of b")
        .await
        .expect("the server replies")
        .expect("it was not created before");
    assert!(store.replace(&long, version, b"of b, later").await.expect("the server replies").is_some());
    assert_eq!(store.read("a").await.expect("readable").content, b"of a");
    assert_eq!(store.read(&long).await.expect("readable").content, b"of b, later");
    assert_eq!(store.read("A").await.expect("readable").version, 0);
}

async fn different_contents_have_different_versions(store: impl DocumentStore) {
    let mut versions = Vec::new();
    // The first replacements of different documents, such as after failovers that have lost the replacements.
    for name in ["a", "b", "c"] {
        for content in ["first", "second"] {
            let seen = store.read(name).await.expect("readable").version;
            versions.extend(store.replace(name, seen, content.as_bytes()).await.expect("the server replies"));
        }
    }
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), 6, "{versions:?}");
    assert!(versions.iter().all(|version| (1..=u64::MAX / 2).contains(version)));
}

async fn a_document_is_read_again_only_if_it_changed(store: impl DocumentStore) {
    let nothing = store.read_newer("a", 0).await.expect("readable");
    assert_eq!((nothing.version, &*nothing.content), (0, &b""[..]));
    assert!(store.replace("a", 0, b"first").await.expect("the server replies").is_some());
    let first = store.read_newer("a", 0).await.expect("readable");
    assert_eq!(first.content, b"first");
    let same = store.read_newer("a", first.version).await.expect("readable");
    assert_eq!((same.version, &*same.content), (first.version, &b""[..]));
    assert_eq!(same.now.is_some(), first.now.is_some());
    assert!(store.replace("a", first.version, b"second").await.expect("the server replies").is_some());
    let second = store.read_newer("a", first.version).await.expect("readable");
    assert_eq!((second.version == first.version, &*second.content), (false, &b"second"[..]));
}
