//! A disk as seen by a program, and the part that is durable.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Names;
use super::chance::Chance;
use super::journal::Operation;

const SECTOR_BYTES: usize = 512;

/// The files of a folder, by name, with their numbers and contents.
pub(super) type Files = BTreeMap<String, (u64, Vec<u8>)>;

#[derive(Debug)]
pub(super) struct Disk<'a> {
    model: Names,
    /// The durable names.
    names: BTreeMap<String, u64>,
    /// Changes of names that are not durable yet.
    changes: Vec<&'a Operation>,
    files: BTreeMap<u64, File<'a>>,
}

#[derive(Debug, Default)]
struct File<'a> {
    durable: Vec<u8>,
    /// Changes of the contents that are not durable yet.
    changes: Vec<&'a Operation>,
}

impl<'a> Disk<'a> {
    pub(super) const fn new(model: Names) -> Self {
        Self { model, names: BTreeMap::new(), changes: Vec::new(), files: BTreeMap::new() }
    }

    pub(super) fn perform(&mut self, operation: &'a Operation) {
        match operation {
            Operation::Create { file, .. } => {
                self.files.insert(*file, File::default());
                self.changes.push(operation);
            }
            Operation::Write { file, .. } | Operation::Resize { file, .. } => {
                self.files.get_mut(file).expect("it was created").changes.push(operation);
            }
            Operation::Sync { file } => {
                self.files.get_mut(file).expect("it was created").sync();
                if self.model == Names::Journaled {
                    self.sync_names();
                }
            }
            Operation::SyncNames => self.sync_names(),
            Operation::Remove { .. } | Operation::Rename { .. } | Operation::Link { .. } => {
                self.changes.push(operation);
            }
        }
    }

    fn sync_names(&mut self) {
        for change in self.changes.drain(..) {
            change_name(&mut self.names, change);
        }
    }

    /// Returns all files as seen by the program.
    pub(super) fn complete(mut self) -> Files {
        self.sync_names();
        self.files.values_mut().for_each(File::sync);
        self.into_files()
    }

    /// Returns the files after a power cut. The same seed leads to the same decisions.
    pub(super) fn fail(mut self, seed: u64) -> Files {
        let mut chance = Chance::new(seed);
        let changes = std::mem::take(&mut self.changes);
        let kept = match self.model {
            Names::Journaled => chance.below(changes.len() as u64 + 1),
            Names::Independent => changes.len() as u64,
        };
        let percent = chance.percent();
        for change in changes.into_iter().take(usize::try_from(kept).expect("an index")) {
            if self.model == Names::Journaled || chance.holds(percent) {
                change_name(&mut self.names, change);
            }
        }
        self.files.values_mut().for_each(|file| file.fail(&mut chance));
        self.into_files()
    }

    fn into_files(mut self) -> Files {
        let content = |(name, number): (String, u64)| {
            // A file with two names has the same contents under both.
            let content = self.files.get_mut(&number).expect("it was created").durable.clone();
            (name, (number, content))
        };
        self.names.into_iter().map(content).collect()
    }
}

/// Changes the names, unless the file does not exist because an earlier change was lost.
fn change_name(names: &mut BTreeMap<String, u64>, change: &Operation) {
    match change {
        Operation::Create { file, name } => _ = names.insert(name.clone(), *file),
        Operation::Remove { name } => _ = names.remove(name),
        Operation::Rename { from, to } => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        Operation::Link { from, to } => {
            if let Some(file) = names.get(from).copied() {
                names.insert(to.clone(), file);
            }
        }
        _ => unreachable!("not a change of names"),
    }
}

impl File<'_> {
    fn sync(&mut self) {
        for change in self.changes.drain(..) {
            match change {
                Operation::Write { at, data, .. } => write(&mut self.durable, *at, data, 0..data.len()),
                Operation::Resize { length, .. } => self.durable.resize(*length, 0),
                _ => unreachable!("not a change of contents"),
            }
        }
    }

    fn fail(&mut self, chance: &mut Chance) {
        let percent = chance.percent();
        for change in self.changes.drain(..) {
            match change {
                Operation::Write { at, data, .. } if chance.holds(20) => {
                    tear(&mut self.durable, *at, data, chance);
                }
                Operation::Write { at, data, .. } if chance.holds(percent) => {
                    write(&mut self.durable, *at, data, 0..data.len());
                }
                Operation::Resize { length, .. } if chance.holds(percent) => self.durable.resize(*length, 0),
                _ => {}
            }
        }
    }
}

/// Writes some sectors of the data. The size may change although no sector is written.
fn tear(content: &mut Vec<u8>, at: usize, data: &[u8], chance: &mut Chance) {
    let percent = chance.percent();
    write(content, at + data.len(), &[], 0..0);
    let mut begin = 0;
    while begin < data.len() {
        let end = ((at + begin) / SECTOR_BYTES + 1) * SECTOR_BYTES - at;
        let sector = begin..end.min(data.len());
        begin = sector.end;
        if chance.holds(percent) {
            write(content, at, data, sector);
        }
    }
}

/// Writes a part of the data, which would begin at this offset as a whole.
fn write(content: &mut Vec<u8>, at: usize, data: &[u8], part: Range<usize>) {
    let range = at + part.start..at + part.end;
    if content.len() < range.end {
        content.resize(range.end, 0);
    }
    content[range].copy_from_slice(&data[part]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_to(file: u64, at: usize, byte: u8, length: usize) -> Operation {
        Operation::Write { file, at, data: vec![byte; length] }
    }

    fn disk(operations: &[Operation], names: Names) -> Disk<'_> {
        let mut disk = Disk::new(names);
        operations.iter().for_each(|operation| disk.perform(operation));
        disk
    }

    #[test]
    fn synced_data_survives_and_other_sectors_are_kept_or_lost() {
        let create = Operation::Create { file: 1, name: "a".to_owned() };
        let operations = [
            create,
            write_to(1, 0, 1, 1024),
            Operation::Sync { file: 1 },
            write_to(1, 256, 2, 512),
            Operation::Resize { file: 1, length: 768 },
        ];
        let mut contents = std::collections::BTreeSet::new();
        for seed in 0..1000 {
            let files = disk(&operations, Names::Journaled).fail(seed);
            let content = &files["a"].1;
            assert!(content[..256].iter().all(|byte| *byte == 1) && content.len() >= 768);
            contents.insert((content[256], content[512], content.len()));
        }
        // Each sector is old or new, and the size is old or new.
        assert_eq!(contents.len(), 8, "{contents:?}");
    }

    #[test]
    fn names_survive_a_sync_of_the_folder_or_of_a_file_with_a_journal() {
        let create = |file, name: &str| Operation::Create { file, name: name.to_owned() };
        let remove = Operation::Remove { name: "a".to_owned() };
        let operations =
            [create(1, "a"), Operation::SyncNames, remove, create(2, "b"), Operation::Sync { file: 2 }];
        let names = |operations: &[Operation], model, seed| {
            disk(operations, model).fail(seed).into_keys().collect::<String>()
        };
        let all = |operations: &[Operation], model| -> std::collections::BTreeSet<_> {
            (0..100).map(|seed| names(operations, model, seed)).collect()
        };
        assert_eq!(all(&operations, Names::Journaled), ["b".to_owned()].into());
        assert_eq!(all(&operations[..4], Names::Journaled), ["a", "", "b"].map(str::to_owned).into());
        assert_eq!(all(&operations, Names::Independent), ["a", "", "b", "ab"].map(str::to_owned).into());
    }
}
