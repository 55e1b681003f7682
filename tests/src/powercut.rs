//! Power cuts: the states that a disk may have if the power fails while a program writes.
//!
//! A [`Recording`] runs programs with a library that journals their file operations (`tests/tools/powercut.c`). A [`Journal`]
//! can then build the disk after a cut at any operation, as often as needed, so a short run is enough for thousands of cuts.
//!
//! The model is stricter than the file systems that we know of:
//!
//! - Data that was synced before the cut is kept. Every other write and every other change of a size is kept or lost independently.
//!   Of a write, any 512-byte sectors may be kept, and the rest is zeros or the earlier contents.
//! - [`Names::Journaled`] describes ext4, XFS and Btrfs: names (created, renamed, removed) are changed in order, so only the
//!   last changes can be lost, and a sync of any file also makes the names durable that were changed before.
//! - [`Names::Independent`] only relies on POSIX: a name is durable once the folder has been synced. Until then, every change
//!   is kept or lost independently.
//! - Bytes next to a write are never changed. SQLite assumes the same (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`).

pub mod chance;
mod journal;
mod disk;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use disk::{Disk, Files};
use journal::Operation;

/// The file in which programs write lines about their progress, e.g. which hits were acknowledged. It isn't part of the disk.
/// The journal contains the lines in order with all other operations.
pub const MARKS: &str = "marks";

/// A disk on which all file operations are recorded.
#[derive(Debug)]
pub struct Recording {
    root: PathBuf,
    /// Removes the folder, unless it was kept.
    folder: Option<TempDir>,
}

/// All operations on a disk, in order.
#[derive(Debug)]
pub struct Journal {
    operations: Vec<Operation>,
    recording: Recording,
}

/// A guarantee of a file system for the names of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Changes are kept in order, and a sync of a file includes the earlier ones.
    Journaled,
    /// Each change is kept or lost independently, unless the folder is synced.
    Independent,
}

/// A power cut, before the operation with the index `at`. If this is a write, it may be done in part.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a> {
    /// Number of operations that are complete.
    pub at: usize,
    /// Seed of all decisions.
    pub seed: u64,
    /// Guarantee of the file system.
    pub names: Names,
    /// Returns whether the disk with a file fails. All other files are complete, as after a kill of the program.
    pub fails: fn(&str) -> bool,
    /// Returns whether a file needs the number that it had on the recorded disk. It must not be open any more.
    pub is_numbered: fn(&str) -> bool,
    /// Empty folder for the files. It must be on the file system of the recording.
    pub folder: &'a Path,
}

impl Recording {
    /// Compiles the library and creates an empty disk.
    ///
    /// # Panics
    ///
    /// Panics if this fails.
    #[must_use]
    pub fn start() -> Self {
        let root = tempfile::tempdir().expect("the folder for temporary files is writable");
        for folder in ["disk", "files"] {
            fs::create_dir(root.path().join(folder)).expect("it is new");
        }
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/powercut.c");
        let made = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", source, "-ldl", "-o"])
            .arg(root.path().join("powercut.so"))
            .status();
        assert!(made.expect("the C compiler that links Rust").success());
        Self { root: root.path().canonicalize().expect("it exists"), folder: Some(root) }
    }

    /// Returns the folder on the disk.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.path("disk")
    }

    /// Records the operations of a program. Programs must run one after another.
    pub fn record<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_PRELOAD", self.path("powercut.so"))
            .env("COUNTER_POWER_FOLDER", self.folder())
            .env("COUNTER_POWER_FILES", self.path("files"))
            .env("COUNTER_POWER_JOURNAL", self.path("journal"))
    }

    /// Reads the journal.
    ///
    /// # Panics
    ///
    /// Panics if operations are missing, i.e. if the files on the disk are not the result of the operations.
    #[must_use]
    pub fn finish(self) -> Journal {
        let operations = journal::read(&self.path("journal"));
        let mut disk = Disk::new(Names::Journaled);
        operations.iter().for_each(|operation| disk.perform(operation));
        let (expected, mut found) = (disk.complete(), Files::new());
        for entry in fs::read_dir(self.folder()).expect("the disk is readable") {
            let path = entry.expect("the disk is readable").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if !name.ends_with("-shm") {
                let number = expected.get(&name).map(|(number, _)| *number).unwrap_or_default();
                found.insert(name, (number, fs::read(path).expect("the disk is readable")));
            }
        }
        assert!(expected.keys().eq(found.keys()), "the journal lacks names: {:?}", found.keys());
        for (name, file) in &found {
            assert!(expected[name] == *file, "the journal lacks changes of {name}");
        }
        Journal { operations, recording: self }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Journal {
    /// Returns the number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns `true` if there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Reads a journal that was [kept](Self::keep), and keeps it again.
    #[must_use]
    pub fn reopen(root: PathBuf) -> Self {
        let recording = Recording { root, folder: None };
        Self { operations: journal::read(&recording.path("journal")), recording }
    }

    /// Keeps the recording for [`reopen`](Self::reopen), and returns the folder.
    pub fn keep(&mut self) -> &Path {
        drop(self.recording.folder.take().map(TempDir::keep));
        &self.recording.root
    }

    /// Returns the lines that were written to [`MARKS`], with the index of the operation.
    pub fn marks(&self) -> impl Iterator<Item = (usize, &str)> {
        let marks = self.created().find(|(.., name)| *name == MARKS).map(|(_, file, _)| file);
        self.operations.iter().enumerate().flat_map(move |(at, operation)| {
            let text = match operation {
                Operation::Write { file, data, .. } if Some(*file) == marks => data.as_slice(),
                _ => &[],
            };
            std::str::from_utf8(text).expect("marks are text").lines().map(move |line| (at, line))
        })
    }

    /// Returns the created files with the index of the operation, the number and the name.
    pub fn created(&self) -> impl Iterator<Item = (usize, u64, &str)> {
        self.operations.iter().enumerate().filter_map(|(at, operation)| match operation {
            Operation::Create { file, name } => Some((at, *file, name.as_str())),
            _ => None,
        })
    }

    /// Returns the indices of operations next to a sync, a mark, a change of a name or of a size.
    #[must_use]
    pub fn turns(&self) -> Vec<usize> {
        let marks: Vec<_> = self.marks().map(|(at, _)| at).collect();
        let others = self
            .operations
            .iter()
            .enumerate()
            .filter_map(|(at, operation)| (!matches!(operation, Operation::Write { .. })).then_some(at));
        marks.into_iter().chain(others).flat_map(|at| [at, at + 1]).collect()
    }

    /// Returns the indices of the operations that sync this file, or the folder if it is `None`.
    pub fn syncs(&self, file: Option<u64>) -> impl Iterator<Item = usize> {
        self.operations.iter().enumerate().filter_map(move |(at, operation)| match operation {
            Operation::Sync { file: synced } => (Some(*synced) == file).then_some(at),
            Operation::SyncNames => file.is_none().then_some(at),
            _ => None,
        })
    }

    /// Writes the files after a power cut to the folder of the cut, which must be empty.
    ///
    /// # Panics
    ///
    /// Panics if the folder can't be written.
    pub fn cut(&self, cut: Cut<'_>) {
        let mut disk = Disk::new(cut.names);
        let mut intact = Disk::new(cut.names);
        for operation in &self.operations[..cut.at] {
            disk.perform(operation);
            intact.perform(operation);
        }
        if let Some(next @ Operation::Write { .. }) = self.operations.get(cut.at) {
            disk.perform(next);
        }
        let mut files = intact.complete();
        files.retain(|name, _| !(cut.fails)(name));
        let failed = disk.fail(cut.seed).into_iter();
        files.extend(failed.filter(|(name, _)| (cut.fails)(name)));
        files.remove(MARKS);
        for (name, (number, content)) in files {
            let path = cut.folder.join(&name);
            if (cut.is_numbered)(&name) {
                let file = self.recording.path("files").join(number.to_string());
                fs::write(&file, content).expect("it is kept");
                fs::hard_link(file, path).expect("the folder is empty");
            } else {
                fs::write(path, content).expect("the folder is writable");
            }
        }
    }
}
