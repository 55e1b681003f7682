//! What watches rely on in a store: a document that is replaced only by who has seen it.

use counter_core::alert::AlertStore;
use futures_util::future::join_all;

use crate::stores;

stores::on! {
    [memory redis redis_without_scripts redis_in_shards cluster sqlite sqlite_in_memory postgres mariadb]
    {
        a_document_is_replaced_only_by_who_has_seen_it
        of_many_that_replace_it_at_once_one_succeeds
    }
}

async fn a_document_is_replaced_only_by_who_has_seen_it(store: impl AlertStore) {
    let empty = store.read().await.expect("readable");
    assert_eq!((empty.version, &*empty.content), (0, &b""[..]));
    assert!(!store.replace(1, b"early").await.expect("it answers"));
    assert!(store.replace(0, b"first \0 \xff").await.expect("it answers"));
    assert!(!store.replace(0, b"late").await.expect("it answers"));
    let first = store.read().await.expect("readable");
    assert_eq!((first.version, &*first.content), (1, &b"first \0 \xff"[..]));
    let long = vec![b'x'; 300_000];
    assert!(store.replace(1, &long).await.expect("it answers"));
    let second = store.read().await.expect("readable");
    assert_eq!((second.version, second.content), (2, long));
}

async fn of_many_that_replace_it_at_once_one_succeeds(store: impl AlertStore) {
    for version in 0..5 {
        let texts: Vec<_> = (0..8).map(|writer| format!("{version} by {writer}")).collect();
        let all = join_all(texts.iter().map(|text| store.replace(version, text.as_bytes()))).await;
        let succeeded: Vec<_> = all
            .into_iter()
            .zip(&texts)
            .filter_map(|(answer, text)| answer.expect("it answers").then_some(text.as_bytes()))
            .collect();
        let found = store.read().await.expect("readable");
        assert_eq!((found.version, vec![&*found.content]), (version + 1, succeeded));
    }
}
