//! Files of the workspace, by their paths from its root.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the workspace.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the text of a file.
pub(super) fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Adds the files below a folder that have this extension. Build output is skipped.
pub(super) fn add_files(folder: &str, extension: &str, files: &mut Vec<String>) {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    for entry in entries {
        let entry = entry.expect("a folder entry");
        let name = entry.file_name().into_string().expect("UTF-8");
        let path = format!("{folder}/{name}");
        if entry.file_type().expect("the file type").is_dir() {
            if name != "target" {
                add_files(&path, extension, files);
            }
        } else if Path::new(&name).extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
}
