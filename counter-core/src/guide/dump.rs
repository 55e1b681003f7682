//! Dumps: a backup of the counts in a file that any store takes, and the way from one store to another.
//!
//! A SQLite file that became too slow, a Redis that is to become a database, a namespace or a number of shards that was
//! chosen badly: [`Stats::dump`](crate::Stats::dump) reads any store, [`Counters::restore`](crate::Counters::restore)
//! adds that to any other. The module [`dump`](crate::dump) has an example. Unique counters are dumped and restored by
//! `UniqueDump` and `UniqueRestore` ([below](#unique-counters)). The program `example-app` has the commands `dump` and
//! `restore`, which write both into one file:
//!
//! ```text
//! $ example-app dump --store sqlite:access-counter.db counts.ndjson.gz
//! {"counters":1000,"samples":540000,"sketches":9239,"lifetimes":1000,"unreadable":0,"unique":{"counters":0,…},"lines":17241,"seconds":…}
//! $ example-app restore --store redis://127.0.0.1:6379 counts.ndjson.gz
//! {"counters":1000,"samples":540000,"sketches":9239,"lifetimes":1000,"already_restored":0,"expired":0,…,"seconds":…}
//! $ example-app restore --store redis://127.0.0.1:6379 counts.ndjson.gz
//! {"counters":1000,"samples":0,"sketches":0,"lifetimes":0,"already_restored":550239,"expired":0,…,"seconds":…}
//! ```
//!
//! # To move a site that goes on counting
//!
//! What is restored is added to what is there, and registers of visitors are merged. So a new store may count before it
//! gets the dump of the old one:
//!
//! 1. start the instances with the new store,
//! 2. stop those with the old one, which flushes them,
//! 3. dump the old store, and restore that into the new one.
//!
//! Nothing is lost and nothing counts twice, in whatever order hits come. Only readers see the older counts later.
//! With few hits it is simpler to stop everything, to dump, to restore, and to start.
//!
//! A dump of a store in which somebody counts is no snapshot: a hit of that time may be in it, or not, or in some
//! precisions and not in others. It does for a backup. For a move, stop the writers first, or their last hits stay
//! behind.
//!
//! # Exactly once
//!
//! A dump has a random id, each of its lines a number, and the store keeps the number of the last line that it has, for
//! each shard, beside the counts: a [source](crate::source) of the name `dump:{id}`. A restore that was killed, or whose
//! store was away, is repeated from the first line of the file, by as many processes at once as there happen to be. A
//! line that is missing, comes twice or is damaged ends the restore before anything of it is added; what came before it
//! stays, and is passed over when the good file is restored. Each line ends with a checksum of itself and of all lines before
//! it, so a line that was changed in any way is refused, also in the middle of a damaged `.gz`.
//!
//! The position of a dump is kept for ever, and takes some 200 bytes of each shard;
//! [`Sources::forget`](crate::source::Sources::forget) forgets it, after which the dump can be added once more.
//!
//! # Counts that are there already
//!
//! Every store has a random [id](crate::visits::StoreId), which is lost with its data. The first line of a dump names the
//! store, and all stores whose counts were restored or archived in it. A restore is refused before anything is added
//!
//! - if the dump has counts of the store itself ([`OwnCounts`](crate::dump::RestoreError::OwnCounts)): it was made from
//!   this store, or from another one that was restored from it. After the store has lost all of its data it has another
//!   id, and takes the dump. If only the counts were deleted, delete the id as well: in Redis the key `document:store` of
//!   the namespace, in SQL the row `store` of `access_documents`;
//! - if the store has counts of the same store from another dump ([`OtherDump`](crate::dump::RestoreError::OtherDump)).
//!   Restore into an empty store or namespace to use the later dump instead.
//!
//! A dump of a version that wrote no ids is restored without these checks.
//!
//! # Unique counters
//!
//! Lines of unique counters stand before those of visits, so that the end of the file is that of the dump of visits; a file
//! that lacks a part of either says so. Each kind keeps its kind: a set has its items again, a HyperLogLog its registers, and
//! an adaptive counter what it had.
//!
#![cfg_attr(
    feature = "unique",
    doc = r#"```
use counter_core::unique::dump::{UniqueDump, UniqueRestore};
use counter_core::unique::{Distinct, SetUniqueCounter, UniqueCounter};
use counter_core::{Counters, MemoryStore};

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let old = MemoryStore::new();
SetUniqueCounter::new(old.clone(), "voters".parse()?).include("ann").await?;
let visits = Counters::builder(old.clone()).build()?;

let mut file = Vec::new();
let (mut unique, mut visits) = (UniqueDump::new(old), visits.stats().dump());
while let Some(line) = unique.next().await? {
    file.push(line);
}
while let Some(line) = visits.next().await? {
    file.push(line);
}

let new = MemoryStore::new();
let counters = Counters::builder(new.clone()).build()?;
let (mut unique, mut visits) = (UniqueRestore::new(new.clone()), counters.restore());
for line in &file {
    match UniqueRestore::is_line(line.as_bytes()) {
        true => unique.line(line.as_bytes()).await?,
        false => visits.line(line.as_bytes()).await?,
    }
}
assert_eq!((unique.finish()?.counters, visits.finish().await?.counters), (1, 0));
let voters = SetUniqueCounter::new(new, "voters".parse()?);
assert_eq!(voters.count().await?, Distinct::Exact(1));
# Ok(())
# }
```"#
)]
//!
//! What is restored is merged with what is there: items join a set, and registers are raised. That needs no fence, so two
//! dumps of one store count once as well. An item that was excluded, or a counter that was forgotten, after the dump is there
//! again after a restore.
//!
//! A store does not know the threshold of an adaptive counter. One that is exact in the dump stays so up to 10,000 items, and
//! the next call of an application goes by its own threshold. An expiry that the application gave to a key is in no dump.
//!
//! On Redis the keys of unique counters are found by `SCAN` on every server, once for each shard that it has: 1,000 keys of
//! any kind are looked at in one call, and some thousand items are read in one. A user with restricted rights needs `+scan` and `+type`.
//! Items that are added or removed meanwhile may be in the dump or not. A connection that is lost, or a server that is
//! replaced, in the middle makes the dump begin anew with that list or set: some lines come twice, which count once.
//!
//! # Who can read a dump
//!
//! Whoever has the file reads what is in it; base64 hides nothing. Keep it as you keep the store.
//!
//! - Of **visits** it has the names of counters, numbers, and registers of visitors, without the salts under which these
//!   were hashed: nobody's address can be tried against it.
//! - Of **sets**, and of adaptive counters that are still exact, it has **every item as the application added it**. An item
//!   that went through a [`VisitorKey`](crate::visitor::VisitorKey) is a hash of 16 bytes, which tells nothing to those who
//!   have not that key, and the key is in no dump. An address, an account or a cookie that was added as it is stands there
//!   for everybody to read, as it does in the store.
//! - Of **HyperLogLogs** it has registers. No item can be read from them, but somebody who knows an item in full can see
//!   whether it may have been counted. Of items under a `VisitorKey` nobody can without the key.
//!
//! Items are in no error and in no log.
//!
//! # Grids
//!
//! A dump has the precisions of the process that makes it, as far back as the store [reaches](crate::Stats::reach). A
//! restore keeps what the grid of its own process keeps: what its retention no longer wants is `expired` in
//! [`Restored`](crate::dump::Restored), and what is of another precision, or of one with another offset, is `unknown`.
//! Both processes should have the same grid, as they do with
//! [`Builder::grid_of_store`](crate::Builder::grid_of_store); nothing is made out of finer samples. Lifetimes come in any case, also of
//! counters whose samples are all gone.
//!
//! An archive is dumped as one store, with all years that it reaches back. A restore adds to the store that counts, and
//! keeps what that keeps. The years go into the far store by a restore of the same dump into it alone, with the
//! precisions and the retention of the archive.
//!
//! # What is in no dump
//!
//! - **Salts**, which are secrets: with them, a dump could be tried against addresses. The new store begins with others,
//!   so a visitor of both stores counts as two in the buckets that were open at the move, and where visitors are told
//!   apart by the [stable salt](crate::Recorder::stable_salt), also in the union of buckets before and after it. Visitors
//!   under a [key](crate::visitor::VisitorKey) of the application stay the same.
//! - **Fences** of processes: an instance that counts into the new store is a new writer there.
//! - **Positions of sources**: a log, a topic or a producer begins at 0 in the new store, and would count
//!   everything once more. Bring each to its position before it is read:
//!   [`Source::advance_to`](crate::source::Source::advance_to) and [`close`](crate::source::Source::close).
//! - **Windows**, which expire, and **entities**, whose truth is in their database.
//! - A [spool](crate::Builder::spool) that is not empty: let it be sent first.
//!
//! # Format
//!
//! A dump is a text of lines, each a JSON object with a number and one entry. Times are Unix seconds, and a
//! precision is a text such as `60` or `86400@82800`. Lines of one precision follow each other.
//!
//! ```text
//! {"line":1,"entry":{"dump":{"format":"access-counter","version":1,"id":"…","time":1585908965,"counts":[{"precision":"60","samples":120}],"visitors":[…],"stores":["…"]}}}
//! {"line":2,"entry":{"samples":{"precision":"60","counter":"/about","counts":[[1585908900,3],[1585908960,12]]}}}
//! {"line":3,"entry":{"visitors":{"precision":"3600","counter":"/about","start":1585908000,"registers":"SFlMTA…"}}}
//! {"line":4,"entry":{"lifetime":{"counter":"/about","count":15}}}
//! {"line":5,"entry":{"end":{"counters":1,"samples":2,"sketches":1,"lifetimes":1,"unreadable":0}}}
//! ```
//!
//! Where distributions are kept, the first line has their precisions under `distributions` and version 2, and there are
//! lines of at most 60 [bins](crate::visits::Bin) of a bucket:
//!
//! ```text
//! {"line":4,"entry":{"bins":{"precision":"3600","counter":"/about","start":1585908000,"bins":[["t-17",3],["c200",3]]}}}
//! ```
//!
//! Unique counters have lines with numbers of their own, under `unique` in the place of `line`. At most 500 items, each in
//! base64, are in one line; a set has as many lines as it needs:
//!
//! ```text
//! {"unique":1,"entry":{"dump":{"format":"access-counter","version":1,"time":1585908965}}}
//! {"unique":2,"entry":{"registers":{"kind":"hll","counter":"readers","registers":"SFlMTA…"}}}
//! {"unique":3,"entry":{"items":{"kind":"set","counter":"voters","items":["YW5u","Ym9i"]}}}
//! {"unique":4,"entry":{"end":{"counters":2,"items":2,"sketches":1,"unreadable":0}}}
//! ```
//!
//! A kind is `set`, `hll` or `adaptive`, which has items or registers. A store without unique counters has no such line.
//!
//! Each line ends with `,"sum":"…"}`, which is left out above: the MurmurHash64A, with the seed of Redis, of 16 bytes, which are
//! the sum of the line before (0 for the first) and the hash of the line without its sum, both as little-endian numbers.
//! Dumps of earlier versions have no sums, and are restored without that check.
//!
//! Registers are what Redis stores under the key of a HyperLogLog, in base64. What could not be read is an entry
//! `unreadable` with the key and the reason, so that a file tells what it lacks. A file without its last line is torn,
//! which a restore says at its end.
