//! The size of folders and files.

use std::collections::BTreeMap;
use std::path::Path;

use super::files::{add_files, text};

/// Folders with the code of the packages.
const FOLDERS: [&str; 7] = [
    "counter-core/src",
    "counter-core/alert/src",
    "counter-core/kafka/src",
    "counter-layer/src",
    "counter-layer/admin/src",
    "counter-layer/log/src",
    "example-app/src",
];

const MAX_FILES: usize = 15;

const MAX_LINES: usize = 800;

/// Folders with more files, and the reason.
const CROWDED: [(&str, &str); 2] = [
    ("counter-core/src", "each file is the head of a folder, except for the root and two small ones"),
    ("counter-layer/admin/src/api", "one file for each route"),
];

fn files() -> Vec<String> {
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| add_files(folder, "rs", &mut files));
    assert!(files.len() > 300, "{files:?}");
    files
}

/// Returns the folders with too many files directly in them.
fn crowded(files: &[String]) -> Vec<String> {
    let mut counts = BTreeMap::new();
    for file in files {
        let folder = Path::new(file).parent().and_then(Path::to_str).expect("a folder");
        *counts.entry(folder.to_owned()).or_insert(0) += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > MAX_FILES).map(|(folder, _)| folder).collect()
}

#[test]
fn folders_have_at_most_15_files() {
    // This also fails if an exception isn't needed anymore.
    assert_eq!(crowded(&files()), CROWDED.map(|(folder, _)| folder));
}

#[test]
fn files_have_at_most_800_lines() {
    let mut files = files();
    files.retain(|file| text(file).lines().count() > MAX_LINES);
    assert!(files.is_empty(), "{files:#?}");
}

#[test]
fn lines_of_templates_have_at_most_140_characters() {
    let mut templates = Vec::new();
    add_files("counter-layer/admin/templates", "html", &mut templates);
    let long = |template: &String| text(template).lines().any(|line| line.chars().count() > 140);
    assert!(templates.len() > 30 && !templates.iter().any(long), "{templates:#?}");
}

#[test]
fn a_crowded_folder_is_found_and_a_deep_one_is_not_crowded() {
    let files = |count: usize| (0..count).map(|file| format!("a/b/{file}.rs"));
    assert_eq!(crowded(&files(MAX_FILES + 1).collect::<Vec<_>>()), ["a/b"]);
    let deep = files(MAX_FILES).chain(["a/c.rs".to_owned(), "a/b/c/d.rs".to_owned()]);
    assert!(crowded(&deep.collect::<Vec<_>>()).is_empty());
}
