use std::fs::{File, OpenOptions};
use std::io::Write;
use std::num::NonZeroU32;
use std::path::Path;

use counter_core::visitor::VisitorKey;
use counter_core::{Recorder, SqlStore, Timestamp};
use tests::powercut::MARKS;
use tests::powercut::chance::Chance;

use crate::Failure;

/// Hits on three counters, a quarter of them for pairs of a page and a value. All others have different visitors.
pub(crate) struct Load {
    seed: u64,
    marks: File,
    pub(crate) chance: Chance,
    pub(crate) recorded: u64,
}

impl Load {
    pub(crate) fn new(folder: &Path, seed: u64) -> Result<Self, Failure> {
        let marks = OpenOptions::new().create(true).append(true).open(folder.join(MARKS))?;
        Ok(Self { seed, marks, chance: Chance::new(seed), recorded: 0 })
    }

    /// Marks the progress. This is a single write, so the journal has it in order.
    pub(crate) fn mark(&mut self, what: &str, number: u64) -> Result<(), Failure> {
        Ok(self.marks.write_all(format!("{what} {number}\n").as_bytes())?)
    }

    /// Announces and records some hits.
    pub(crate) fn record(&mut self, recorder: &Recorder, hits: u64) -> Result<(), Failure> {
        let all = ["a", "b", "c"].map(|name| recorder.counter(name));
        let values = recorder.label_values("site")?.by_page();
        let key = VisitorKey::new([7; 16]);
        self.mark("announced", self.recorded + hits)?;
        for number in self.recorded..self.recorded + hits {
            let counter = all[usize::try_from(number % 3)?];
            if number % 4 == 3 {
                let noted = values.note(Some("a.example"), NonZeroU32::MIN);
                let pair = values.pair(noted, counter, Timestamp::now(), NonZeroU32::MIN);
                recorder.record(pair.ok_or("there is a place")?, None);
            } else {
                let visitor = key.visitor(&[&self.seed.to_le_bytes(), &number.to_le_bytes()]);
                recorder.record(counter, Some(visitor));
            }
        }
        self.recorded += hits;
        Ok(())
    }
}

pub(crate) async fn open(path: &Path) -> Result<SqlStore, Failure> {
    Ok(SqlStore::builder().create_tables().connect(&format!("sqlite:{}", path.display())).await?)
}
