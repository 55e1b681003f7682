//! The contract of notes on all stores, with concurrent writers.

use std::collections::BTreeSet;

use counter_alert::note::{Note, Notes};
use counter_core::document::DocumentStore;
use counter_core::{ErrorKind, MemoryStore, Timestamp};
use futures_util::future::join_all;

use crate::stores;

stores::on! {
    [memory redis redis_without_scripts redis_in_shards cluster sqlite sqlite_in_memory postgres mariadb]
    {
        notes_are_listed_by_time_and_removed_once
        concurrent_writers_neither_lose_nor_duplicate_notes
        a_note_over_the_limit_is_rejected_until_a_note_is_removed
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix(1_795_262_400 + seconds)
}

fn note(seconds: u64, id: &str) -> Note {
    Note::new(at(seconds), format!("Die Größe – {id}")).expect("a text").with_id(id).expect("an id")
}

async fn ids(notes: &Notes) -> Vec<String> {
    let all = notes.list(..).await.expect("readable");
    all.iter().map(|note| note.id().to_owned()).collect()
}

#[tokio::test]
async fn notes_of_a_newer_version_are_reported_and_not_changed() {
    let (store, newer) = (MemoryStore::new(), b"{\"version\":2,\"notes\":[],\"more\":1}");
    store.replace("notes", 0, newer).await.expect("memory").expect("there is none");
    let notes = Notes::new(store.clone());
    let error = notes.add(&note(1, "a")).await.expect_err("it cannot be read");
    assert!(format!("{error:?}").contains("the document is newer than this program"), "{error:?}");
    assert!(notes.list(..).await.is_err());
    assert_eq!(store.read("notes").await.expect("memory").content, newer);
}

async fn notes_are_listed_by_time_and_removed_once(store: impl DocumentStore) {
    let notes = Notes::new(store);
    assert_eq!(notes.list(at(0)..at(9)).await.expect("readable"), []);
    for (seconds, id) in [(7, "late"), (3, "early"), (3, "early-too"), (9, "beyond")] {
        assert!(notes.add(&note(seconds, id)).await.expect("it is added").is_new);
    }
    let all = notes.list(at(3)..at(9)).await.expect("readable");
    assert_eq!(all, [note(3, "early"), note(3, "early-too"), note(7, "late")]);
    let again = notes.add(&note(8, "early")).await.expect("it answers");
    assert_eq!((again.note, again.is_new), (note(3, "early"), false));
    assert!(notes.remove("early").await.expect("it answers"));
    assert!(!notes.remove("early").await.expect("it answers"));
    assert_eq!(ids(&notes).await, ["early-too", "late", "beyond"]);
}

async fn concurrent_writers_neither_lose_nor_duplicate_notes(store: impl DocumentStore) {
    let notes = Notes::new(store);
    // Writers add notes with different ids. In addition, all of them try to add the same note, and to remove
    // the same note.
    notes.add(&note(0, "removed")).await.expect("it is added");
    let writers = (0..6).map(async |writer| {
        let notes = notes.clone();
        for number in 0..3 {
            notes.add(&note(number, &format!("{writer}-{number}"))).await.expect("it is added");
        }
        let is_new = notes.add(&note(5, "shared")).await.expect("it answers").is_new;
        (is_new, notes.remove("removed").await.expect("it answers"))
    });
    let found = join_all(writers).await;
    assert_eq!(found.iter().filter(|(is_new, _)| *is_new).count(), 1, "{found:?}");
    assert_eq!(found.iter().filter(|(_, is_removed)| *is_removed).count(), 1, "{found:?}");
    let own = (0..6).flat_map(|writer| (0..3).map(move |number| format!("{writer}-{number}")));
    let expected: BTreeSet<_> = own.chain(["shared".to_owned()]).collect();
    let found = ids(&notes).await;
    assert_eq!((found.len(), found.into_iter().collect::<BTreeSet<_>>()), (expected.len(), expected));
}

async fn a_note_over_the_limit_is_rejected_until_a_note_is_removed(store: impl DocumentStore) {
    let notes_json = (0..Notes::MAX).map(|number| format!("{{\"id\":\"{number}\",\"at\":9,\"text\":\"a\"}}"));
    let notes_json = format!("{{\"notes\":[{}]}}", notes_json.collect::<Vec<_>>().join(","));
    assert!(store.replace("notes", 0, notes_json.as_bytes()).await.expect("it answers").is_some());
    let notes = Notes::new(store);
    let rejected = notes.add(&note(0, "new")).await.expect_err("there is no place");
    assert_eq!(rejected.kind(), &ErrorKind::TooManyItems { max: Notes::MAX as u64 });
    assert!(!notes.add(&note(0, "7")).await.expect("it is one of them").is_new);
    assert_eq!(ids(&notes).await.len(), Notes::MAX);
    assert!(notes.remove("7").await.expect("it answers"));
    assert!(notes.add(&note(0, "new")).await.expect("there is a place").is_new);
}

#[tokio::test]
async fn an_invalid_list_of_notes_is_reported_and_kept() {
    let store = MemoryStore::new();
    assert!(store.replace("notes", 0, b"[]").await.expect("it answers").is_some());
    let notes = Notes::new(store.clone());
    let failed = notes.add(&note(0, "a")).await.expect_err("it is something else");
    assert_eq!(failed.kind(), &ErrorKind::Malformed { key: "notes".to_owned() });
    assert_eq!(store.read("notes").await.expect("readable").content, b"[]");
}
