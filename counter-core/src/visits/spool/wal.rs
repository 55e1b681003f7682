//! Detects damage in the SQLite write-ahead log, which SQLite does not report.
//!
//! A log is a header followed by frames, which contain a page and a cumulative checksum. SQLite reads up to
//! the first invalid checksum, because this is how a log ends in a crash, and ignores the rest without an
//! error. So a single damaged byte hides all later transactions. To distinguish both cases, we scan the rest:
//! if a crash caused the invalid checksum, it is not followed by a complete transaction. Only a power failure
//! can write a later transaction without an earlier one. We report this as damage, because the hits in between
//! are lost as well.
//!
//! The format is described at <https://sqlite.org/fileformat2.html#walformat>.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Damage in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// Offset of the first damaged header or frame, in bytes.
    pub(super) offset: u64,
    /// Length of the header and the intact transactions up to the damage, in bytes; 0 if the header is
    /// damaged.
    pub(super) intact: u64,
}

/// The header of a SQLite log.
#[derive(Clone, Copy, Debug)]
struct Header {
    is_big_endian: bool,
    page_size: usize,
    salts: [u32; 2],
    checksum: Checksum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Checksum(u32, u32);

/// A frame of a SQLite log: the header and a page of the database.
struct Frame<'a> {
    /// Page number and database size, which are covered by the checksum.
    place: &'a [u8],
    page: &'a [u8],
    /// Database size after the transaction, in pages; 0 except in the final frame of a transaction.
    size: u32,
    salts: [u32; 2],
    checksum: Checksum,
}

const HEADER_LENGTH: usize = 32;
const FRAME_HEADER_LENGTH: usize = 24;
/// The magic number at the start of a log, except for the lowest bit, which is the byte order of the
/// checksums.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// Detects damage in a log of this length, in bytes.
///
/// Leftovers of a crash are not damage: an incomplete transaction at the end, frames of an earlier log
/// generation, and zeros. The final transaction counts as damaged only if it ends with the file; otherwise, a
/// crash might have interrupted it while it overwrote an earlier generation.
pub(super) async fn find_damage(
    log: &mut (impl AsyncRead + Unpin),
    length: u64,
) -> io::Result<Option<Damage>> {
    let Some(header) = read(log, HEADER_LENGTH).await? else { return Ok(None) };
    let Some(header) = Header::parse(&header) else {
        return Ok(Some(Damage { offset: 0, intact: 0 }));
    };
    let mut at = HEADER_LENGTH as u64;
    let (mut sum, mut intact, mut wrong) = (header.checksum, at, None);
    while let Some(bytes) = read(log, header.frame_length()).await? {
        let (frame, begin) = (Frame::parse(&bytes), at);
        at += bytes.len() as u64;
        match wrong {
            None if frame.follows(sum, &header) => {
                sum = frame.checksum;
                if frame.size > 0 {
                    intact = at;
                }
                continue;
            }
            None => wrong = Some(begin),
            Some(_) => {}
        }
        // A transaction is written in order, so if the final frame exists, the transaction is complete.
        let is_last = frame.is_of(header.salts) && frame.size > 0;
        if let Some(offset) = wrong.filter(|wrong| is_last && (begin > *wrong || at == length)) {
            return Ok(Some(Damage { offset, intact }));
        }
    }
    Ok(None)
}

/// Copies a log with new checksums, to allow SQLite to read past the damage. `page_size` is the page size of
/// the database, used if the header is damaged.
pub(super) async fn reseal(
    log: &mut (impl AsyncRead + Unpin),
    copy: &mut (impl AsyncWrite + Unpin),
    page_size: usize,
) -> io::Result<()> {
    let Some(header) = read(log, HEADER_LENGTH).await? else { return Ok(()) };
    let header = Header::parse(&header);
    let frame_length = header.map_or(FRAME_HEADER_LENGTH + page_size, |header| header.frame_length());
    let mut sealed = match header {
        Some(header) => Some(header.write(copy).await?),
        None => None,
    };
    while let Some(mut bytes) = read(log, frame_length).await? {
        let frame = Frame::parse(&bytes);
        let header = match &mut sealed {
            Some(header) if !frame.is_of(header.salts) => continue,
            Some(header) => header,
            // The salts are also stored in every frame.
            None => sealed.insert(Header::of(page_size, frame.salts).write(copy).await?),
        };
        header.checksum = frame.sum(header.checksum, false);
        let Header { salts: [first, second], checksum: Checksum(high, low), .. } = *header;
        write_words(&mut bytes[8..FRAME_HEADER_LENGTH], [first, second, high, low]);
        copy.write_all(&bytes).await?;
    }
    Ok(())
}

impl Header {
    /// Returns `None` if the header is damaged.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let [magic, version, page_size, _, first, second, high, low] = words(bytes);
        let page_size = usize::try_from(page_size).ok()?;
        let is_big_endian = magic & 1 == 1;
        let checksum = Checksum(high, low);
        let is_intact = magic & !1 == MAGIC
            && version == VERSION
            && (512..=65_536).contains(&page_size)
            && Checksum(0, 0).add(&bytes[..24], is_big_endian) == checksum;
        is_intact.then_some(Self { is_big_endian, page_size, salts: [first, second], checksum })
    }

    const fn of(page_size: usize, salts: [u32; 2]) -> Self {
        Self { is_big_endian: false, page_size, salts, checksum: Checksum(0, 0) }
    }

    /// Writes the header with checksums in little-endian order, and returns the written header.
    async fn write(self, copy: &mut (impl AsyncWrite + Unpin)) -> io::Result<Self> {
        let page_size = u32::try_from(self.page_size).map_err(io::Error::other)?;
        let mut bytes = [0; HEADER_LENGTH];
        write_words(&mut bytes, [MAGIC, VERSION, page_size, 0, self.salts[0], self.salts[1]]);
        let checksum = Checksum(0, 0).add(&bytes[..24], false);
        write_words(&mut bytes[24..], [checksum.0, checksum.1]);
        copy.write_all(&bytes).await?;
        Ok(Self { is_big_endian: false, checksum, ..self })
    }

    const fn frame_length(&self) -> usize {
        FRAME_HEADER_LENGTH + self.page_size
    }
}

impl<'a> Frame<'a> {
    fn parse(bytes: &'a [u8]) -> Self {
        let (header, page) = bytes.split_at(FRAME_HEADER_LENGTH);
        let [_, size, first, second, high, low] = words(header);
        Self { place: &header[..8], page, size, salts: [first, second], checksum: Checksum(high, low) }
    }

    /// Returns `true` if SQLite would accept this frame next, given the previous checksum.
    fn follows(&self, sum: Checksum, header: &Header) -> bool {
        self.salts == header.salts && self.sum(sum, header.is_big_endian) == self.checksum
    }

    /// Returns `true` if the frame belongs to this log generation. In the next generation, both salts are
    /// different, but a damaged byte can only change one salt.
    const fn is_of(&self, salts: [u32; 2]) -> bool {
        self.salts[0] == salts[0] || self.salts[1] == salts[1]
    }

    fn sum(&self, sum: Checksum, is_big_endian: bool) -> Checksum {
        sum.add(self.place, is_big_endian).add(self.page, is_big_endian)
    }
}

impl Checksum {
    fn add(self, bytes: &[u8], is_big_endian: bool) -> Self {
        let word = |bytes: &[u8]| {
            let bytes = bytes.try_into().expect("four bytes");
            if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let Self(mut first, mut second) = self;
        for pair in bytes.chunks_exact(8) {
            first = first.wrapping_add(word(&pair[..4])).wrapping_add(second);
            second = second.wrapping_add(word(&pair[4..])).wrapping_add(first);
        }
        Self(first, second)
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut words =
        bytes.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().expect("four bytes")));
    std::array::from_fn(|_| words.next().unwrap_or_default())
}

fn write_words<const N: usize>(bytes: &mut [u8], words: [u32; N]) {
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

/// Reads this number of bytes; `None` if the log is too short.
async fn read(log: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; length];
    match log.read_exact(&mut bytes).await {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode};
    use sqlx::{ConnectOptions, SqliteConnection};

    use super::*;

    const PAGE_SIZE: usize = 4096;
    const FRAME_LENGTH: usize = FRAME_HEADER_LENGTH + PAGE_SIZE;

    async fn open(path: &Path) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).locking_mode(SqliteLockingMode::Exclusive);
        options.connect().await.expect("writable")
    }

    async fn run(connection: &mut SqliteConnection, statement: &str) {
        sqlx::query(statement).execute(connection).await.expect(statement);
    }

    /// Returns a database with this number of single-row transactions, and the log.
    async fn written(transactions: u64) -> (Vec<u8>, Vec<u8>) {
        let folder = tempfile();
        let path = folder.join("a");
        let mut connection = open(&path).await;
        run(&mut connection, "CREATE TABLE row (content)").await;
        for _ in 0..transactions {
            run(&mut connection, "INSERT INTO row VALUES (randomblob(5000))").await;
        }
        let read = |name| std::fs::read(folder.join(name)).expect("readable");
        let files = (read("a"), read("a-wal"));
        std::fs::remove_dir_all(folder).expect("ours");
        files
    }

    fn tempfile() -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(crate::family::writer::WriterId::random().to_string());
        std::fs::create_dir(&folder).expect("writable");
        folder
    }

    async fn damage(log: &[u8]) -> Option<Damage> {
        find_damage(&mut &*log, log.len() as u64).await.expect("memory is readable")
    }

    /// Returns the number of rows found by SQLite; `None` if the table doesn't exist.
    async fn rows((database, log): (&[u8], &[u8])) -> Option<i64> {
        let folder = tempfile();
        let path = folder.join("a");
        std::fs::write(&path, database).expect("writable");
        std::fs::write(folder.join("a-wal"), log).expect("writable");
        let count = sqlx::query_scalar("SELECT count(*) FROM row");
        let count = count.fetch_one(&mut open(&path).await).await.ok();
        std::fs::remove_dir_all(folder).expect("ours");
        count
    }

    #[tokio::test]
    async fn changed_bytes_are_damage_and_earlier_transactions_intact() {
        let (database, log) = written(6).await;
        assert_eq!(damage(&log).await, None);
        for at in (0..HEADER_LENGTH).chain((HEADER_LENGTH..log.len()).step_by(97)) {
            let mut changed = log.clone();
            changed[at] ^= 1;
            let found = damage(&changed).await.unwrap_or_else(|| panic!("byte {at}"));
            let frame = at.checked_sub(HEADER_LENGTH).map(|at| at / FRAME_LENGTH);
            let offset = frame.map_or(0, |frame| HEADER_LENGTH + frame * FRAME_LENGTH);
            assert_eq!(found.offset, offset as u64, "byte {at}");
            let intact = usize::try_from(found.intact).expect("short");
            assert!(intact <= offset && damage(&log[..intact]).await.is_none());
            if at % 11 == 0 && intact > 0 {
                assert_eq!(rows((&database, &changed)).await, rows((&database, &log[..intact])).await);
            }
        }
    }

    #[tokio::test]
    async fn truncated_logs_are_not_damaged() {
        let (_, log) = written(3).await;
        for length in (0..log.len()).step_by(61) {
            assert_eq!(damage(&log[..length]).await, None, "{length} bytes");
            let zeros = [&log[..length], &[0; 3 * FRAME_LENGTH]].concat();
            assert!(length < HEADER_LENGTH || damage(&zeros).await.is_none(), "{length} bytes and zeros");
        }
    }

    #[tokio::test]
    async fn frames_of_an_earlier_generation_are_not_damage() {
        let folder = tempfile();
        let mut connection = open(&folder.join("a")).await;
        run(&mut connection, "CREATE TABLE row (content)").await;
        run(&mut connection, "INSERT INTO row VALUES (randomblob(50000))").await;
        run(&mut connection, "PRAGMA wal_checkpoint(RESTART)").await;
        run(&mut connection, "INSERT INTO row VALUES (1)").await;
        let log = std::fs::read(folder.join("a-wal")).expect("readable");
        assert!(log.len() > 10 * FRAME_LENGTH);
        assert_eq!(damage(&log).await, None);
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[tokio::test]
    async fn frames_of_rolled_back_transactions_are_not_damage() {
        let folder = tempfile();
        let mut connection = open(&folder.join("a")).await;
        // With a small cache, pages are written to the log before the transaction ends.
        run(&mut connection, "PRAGMA cache_size = 5").await;
        run(&mut connection, "CREATE TABLE row (content)").await;
        run(&mut connection, "BEGIN").await;
        for _ in 0..10 {
            run(&mut connection, "INSERT INTO row VALUES (randomblob(50000))").await;
        }
        run(&mut connection, "ROLLBACK").await;
        run(&mut connection, "INSERT INTO row VALUES (1)").await;
        let log = std::fs::read(folder.join("a-wal")).expect("readable");
        assert!(log.len() > 10 * FRAME_LENGTH);
        assert_eq!(damage(&log).await, None);
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[tokio::test]
    async fn resealed_logs_contain_the_rows_after_the_damage() {
        let (database, log) = written(6).await;
        for at in [3, 9, 18, 30, HEADER_LENGTH + 3 * FRAME_LENGTH + 4000] {
            let mut changed = log.clone();
            changed[at] ^= 1;
            let mut resealed = Vec::new();
            reseal(&mut &*changed, &mut resealed, PAGE_SIZE).await.expect("memory is writable");
            assert_eq!(rows((&database, &resealed)).await, Some(6), "byte {at}");
        }
    }
}
