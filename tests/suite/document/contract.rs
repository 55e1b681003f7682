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
    }
}

async fn a_document_is_replaced_only_by_who_has_seen_it(store: impl DocumentStore) {
    let empty = store.read("a").await.expect("readable");
    assert_eq!((empty.version, &*empty.content), (0, &b""[..]));
    assert!(!store.replace("a", 1, b"early").await.expect("it answers"));
    assert!(store.replace("a", 0, b"first \0 \xff").await.expect("it answers"));
    assert!(!store.replace("a", 0, b"late").await.expect("it answers"));
    let first = store.read("a").await.expect("readable");
    assert_eq!((first.version, &*first.content), (1, &b"first \0 \xff"[..]));
    let long = vec![b'x'; 300_000];
    assert!(store.replace("a", 1, &long).await.expect("it answers"));
    let second = store.read("a").await.expect("readable");
    assert_eq!((second.version, second.content), (2, long));
}

async fn of_many_that_replace_it_at_once_one_succeeds(store: impl DocumentStore) {
    for version in 0..5 {
        let texts: Vec<_> = (0..8).map(|writer| format!("{version} by {writer}")).collect();
        let all = join_all(texts.iter().map(|text| store.replace("a", version, text.as_bytes()))).await;
        let succeeded: Vec<_> = all
            .into_iter()
            .zip(&texts)
            .filter_map(|(answer, text)| answer.expect("it answers").then_some(text.as_bytes()))
            .collect();
        let found = store.read("a").await.expect("readable");
        assert_eq!((found.version, vec![&*found.content]), (version + 1, succeeded));
    }
}

async fn names_are_apart(store: impl DocumentStore) {
    let long = "b".repeat(128);
    assert!(store.replace("a", 0, b"of a").await.expect("it answers"));
    assert!(store.replace(&long, 0, b"of b").await.expect("it answers"));
    assert!(store.replace(&long, 1, b"of b, later").await.expect("it answers"));
    assert_eq!(store.read("a").await.expect("readable").content, b"of a");
    assert_eq!(store.read(&long).await.expect("readable").version, 2);
    assert_eq!(store.read("A").await.expect("readable").version, 0);
}
