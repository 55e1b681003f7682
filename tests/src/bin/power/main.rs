//! Counts on a disk on which the power will be cut: `power KIND FOLDER SEED`, for `tests::powercut`.
//!
//! The program marks its progress in the folder. `announced N` precedes the first write of any of these hits, and
//! `acknowledged N` follows when a flush that contains the hits has returned.

mod load;
mod sql;
mod spool;
mod archive;

use std::error::Error;
use std::path::Path;

use spool::End;

type Failure = Box<dyn Error>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let [kind, folder, seed] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "usage: power KIND FOLDER SEED")?;
    let (folder, seed) = (Path::new(&folder), seed.parse()?);
    match &*kind {
        "sql" => sql::run(folder, seed).await,
        "killed" => spool::run(folder, seed, End::Kill).await,
        "stopped" => spool::run(folder, seed, End::Shutdown).await,
        "archive" => archive::run(folder, seed).await,
        _ => Err("the kind is sql, killed, stopped or archive".into()),
    }
}
