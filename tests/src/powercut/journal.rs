//! The journal that is written by `tests/tools/powercut.c`.

use std::fs;
use std::path::Path;

/// An operation on a file, which is identified by a number, or on a name in the folder.
#[derive(Debug)]
pub(super) enum Operation {
    Create {
        file: u64,
        name: String,
    },
    Write {
        file: u64,
        at: usize,
        data: Vec<u8>,
    },
    Resize {
        file: u64,
        length: usize,
    },
    Sync {
        file: u64,
    },
    SyncNames,
    Remove {
        name: String,
    },
    /// A name is empty if it is not in the folder.
    Rename {
        from: String,
        to: String,
    },
    Link {
        from: String,
        to: String,
    },
}

/// Reads the operations in a journal.
pub(super) fn read(path: &Path) -> Vec<Operation> {
    let journal = fs::read(path).expect("the program was recorded");
    let (mut rest, mut operations) = (journal.as_slice(), Vec::new());
    while let Some((header, after)) = rest.split_first_chunk::<32>() {
        let word = |index: usize| {
            u64::from_ne_bytes(header[8 * index..8 * (index + 1)].try_into().expect("eight bytes"))
        };
        let index = |word: u64| usize::try_from(word).expect("a small file");
        let (data, after) = after.split_at(index(word(3)));
        let text = || String::from_utf8(data.to_vec()).expect("names are text");
        let names = || {
            let names = text();
            let (from, to) = names.split_once('/').expect("two names");
            (from.to_owned(), to.to_owned())
        };
        let file = word(1);
        operations.push(match word(0) {
            0 => Operation::Create { file, name: text() },
            1 => Operation::Write { file, at: index(word(2)), data: data.to_vec() },
            2 => Operation::Resize { file, length: index(word(2)) },
            3 => Operation::Sync { file },
            4 => Operation::SyncNames,
            5 => Operation::Remove { name: text() },
            6 => {
                let (from, to) = names();
                Operation::Rename { from, to }
            }
            7 => {
                let (from, to) = names();
                Operation::Link { from, to }
            }
            unknown => panic!("unknown operation {unknown}"),
        });
        rest = after;
    }
    assert!(rest.is_empty(), "the journal is incomplete");
    operations
}
