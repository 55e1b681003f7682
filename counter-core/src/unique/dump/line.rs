use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::family::line;
use crate::family::line::{FORMAT, cut, decoded, encoded, encoded_bytes};
use crate::sketch::Sketch;
use crate::time::Timestamp;
use crate::unique::counter::{MAX_ITEM_BYTES, MAX_ITEMS};
use crate::unique::store::{UniqueKey, UniqueKind};

/// The format version of unique counter lines that is written. A number must never be used again for a
/// different format.
const VERSION: u32 = 2;

/// The format versions that can be read. Lines in version 1 may have no checksums.
const READABLE_VERSIONS: RangeInclusive<u32> = 1..=2;

/// Number of base64 characters at which a line gets no more items, so that the last item and all other fields
/// fit into the maximum length.
const MAX_CHARACTERS: usize = 48 * 1024;

/// Totals of a unique counter dump, stored in the final line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct UniqueDumped {
    /// Number of counters listed by the store.
    pub counters: u64,
    /// Number of items in sets, and in adaptive counters that are still exact.
    pub items: u64,
    /// Number of counters with registers.
    pub sketches: u64,
    /// Number of unreadable counters, plus counter parts with oversized items. These are reported in separate
    /// lines.
    pub unreadable: u64,
}

/// A parsed line.
#[derive(Debug, PartialEq)]
pub(super) enum Record {
    Begin,
    Items { counter: UniqueKey, items: Vec<Vec<u8>> },
    Registers { counter: UniqueKey, sketch: Sketch },
    Unreadable,
    End(UniqueDumped),
}

/// A serialized line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    unique: u64,
    entry: Entry<'a>,
}

/// The content of a line, without the line number.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Entry<'a> {
    Dump {
        format: Cow<'a, str>,
        version: u32,
        time: u64,
    },
    Items {
        kind: Cow<'a, str>,
        counter: Cow<'a, str>,
        /// Items in base64.
        items: Vec<String>,
    },
    Registers {
        kind: Cow<'a, str>,
        counter: Cow<'a, str>,
        registers: String,
    },
    Unreadable {
        key: String,
        reason: String,
    },
    End(UniqueDumped),
}

impl<'a> Entry<'a> {
    pub(super) fn begin(time: Timestamp) -> Self {
        Self::Dump { format: FORMAT.into(), version: VERSION, time: time.as_unix() }
    }

    /// Takes as many items as fit in a line, but at least one.
    pub(super) fn items(counter: &'a UniqueKey, from: &mut impl Iterator<Item = Vec<u8>>) -> Option<Self> {
        let (mut items, mut characters) = (Vec::new(), 0);
        while items.len() < MAX_ITEMS
            && characters < MAX_CHARACTERS
            && let Some(item) = from.next()
        {
            let item = encoded_bytes(&item);
            characters += item.len() + 3;
            items.push(item);
        }
        let (kind, counter) = (counter.kind.name().into(), Cow::Borrowed(&*counter.name));
        let is_any = !items.is_empty();
        is_any.then_some(Self::Items { kind, counter, items })
    }

    pub(super) fn registers(counter: &'a UniqueKey, sketch: &Sketch) -> Self {
        let (kind, name) = (counter.kind.name().into(), Cow::Borrowed(&*counter.name));
        Self::Registers { kind, counter: name, registers: encoded(sketch) }
    }

    pub(super) fn unreadable(key: &str, reason: &str) -> Self {
        Self::Unreadable { key: cut(key), reason: cut(reason) }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Items { items, .. } => items.len() as u64,
            _ => 0,
        }
    }

    /// Serializes the entry with this line number, without a line ending.
    pub(super) fn text(self, line: u64) -> String {
        serde_json::to_string(&Line { unique: line, entry: self })
            .expect("strings and numbers are valid JSON")
    }
}

/// Returns `true` if this looks like a unique counter line.
pub(super) fn is_line(bytes: &[u8]) -> bool {
    let mut rest = bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
    b"{\"unique\":".iter().all(|byte| rest.next() == Some(byte))
}

/// Parses a line into the line number and record. The error describes the expected input.
pub(super) fn parse(bytes: &[u8]) -> Result<(u64, Record), String> {
    let check_version = || line::check_version(bytes, READABLE_VERSIONS);
    // A newer version can have a first line that we can't read, so the version is the better reason.
    let Line { unique, entry } = line::read(bytes, "a line of unique counters")
        .map_err(|reason| check_version().err().unwrap_or(reason))?;
    let record = match entry {
        Entry::Dump { .. } => check_version().map(|()| Record::Begin)?,
        Entry::Items { kind, counter, items } => {
            let counter = key(&kind, &counter)?;
            if counter.kind == UniqueKind::Sketch {
                return Err("registers: a HyperLogLog doesn't have items".to_owned());
            }
            if !(1..=MAX_ITEMS).contains(&items.len()) {
                return Err(format!("1 to {MAX_ITEMS} items"));
            }
            Record::Items { counter, items: items.iter().map(|text| item(text)).collect::<Result<_, _>>()? }
        }
        Entry::Registers { kind, counter, registers } => {
            let counter = key(&kind, &counter)?;
            if counter.kind == UniqueKind::Set {
                return Err("items: a set doesn't have registers".to_owned());
            }
            Record::Registers { counter, sketch: line::registers(&registers)? }
        }
        Entry::Unreadable { .. } => Record::Unreadable,
        Entry::End(dumped) => Record::End(dumped),
    };
    Ok((unique, record))
}

fn item(text: &str) -> Result<Vec<u8>, String> {
    match decoded(text)? {
        item if item.len() <= MAX_ITEM_BYTES => Ok(item),
        _ => Err(format!("an item of at most {MAX_ITEM_BYTES} bytes")),
    }
}

fn key(kind: &str, name: &str) -> Result<UniqueKey, String> {
    let kind = UniqueKind::parse(kind).ok_or_else(|| "a kind: set, hll or adaptive".to_owned())?;
    Ok(UniqueKey { name: line::name(name)?, kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::line::MAX_LINE_BYTES;
    use crate::family::name::CounterName;
    use crate::sketch::Register;
    use crate::unique::threshold::Threshold;

    fn counter(kind: UniqueKind, name: &str) -> UniqueKey {
        UniqueKey { name: CounterName::new(name).expect("a name"), kind }
    }

    #[test]
    fn entries_round_trip() {
        let set = counter(UniqueKind::Set, "a \"b\" \\ é");
        let adaptive = counter(UniqueKind::Adaptive(Threshold::MAX), "a");
        let items = vec![Vec::new(), b"ann".to_vec(), vec![0, 255, b'\n']];
        let sketch: Sketch = (0..4000_u32).map(|n| Register::of(&n.to_le_bytes())).collect();
        for (entry, record) in [
            (Entry::begin(Timestamp::from_unix(7)), Record::Begin),
            (
                Entry::items(&set, &mut items.clone().into_iter()).expect("some"),
                Record::Items { counter: set.clone(), items: items.clone() },
            ),
            (
                Entry::items(&adaptive, &mut items.clone().into_iter()).expect("some"),
                Record::Items { counter: adaptive.clone(), items: items.clone() },
            ),
            (
                Entry::registers(&adaptive, &sketch),
                Record::Registers { counter: adaptive.clone(), sketch: sketch.clone() },
            ),
            (Entry::unreadable("key", "reason"), Record::Unreadable),
            (Entry::End(UniqueDumped::default()), Record::End(UniqueDumped::default())),
        ] {
            let text = entry.text(12);
            assert!(is_line(text.as_bytes()) && !text.contains('\n'), "{text}");
            assert_eq!(parse(text.as_bytes()), Ok((12, record)));
        }
        assert!(Entry::items(&set, &mut std::iter::empty()).is_none());
        assert!(is_line(b" { \"unique\" : 1") && !is_line(b"{\"line\":1") && !is_line(b""));
    }

    #[test]
    fn maximum_length_lines_are_parsed() {
        let long = counter(UniqueKind::Set, &"\"".repeat(CounterName::MAX_BYTES));
        let sketch = counter(UniqueKind::Sketch, &long.name);
        let ranks = (0..16_384).map(|index| Register { index, rank: 51 });
        let mut items = std::iter::repeat_n(vec![255; MAX_ITEM_BYTES], 1000);
        let mut lines = Vec::new();
        while let Some(entry) = Entry::items(&long, &mut items) {
            lines.push(entry.text(u64::MAX));
        }
        assert!(lines.len() > 5 && lines[0].len() < MAX_LINE_BYTES, "{}", lines.len());
        lines.push(Entry::registers(&sketch, &ranks.collect()).text(u64::MAX));
        lines.push(Entry::unreadable(&"\u{1}".repeat(100_000), &"é".repeat(100_000)).text(u64::MAX));
        for text in lines {
            assert!(parse(text.as_bytes()).is_ok(), "{}: {:?}", text.len(), parse(text.as_bytes()));
        }
    }

    #[test]
    fn parse_errors_describe_the_expected_input() {
        let of = |entry: &str| format!("{{\"unique\":2,\"entry\":{entry}}}");
        let items = |kind: &str, counter: &str, items: &str| {
            of(&format!("{{\"items\":{{\"kind\":\"{kind}\",\"counter\":{counter},\"items\":[{items}]}}}}"))
        };
        let registers = |kind: &str, registers: &str| {
            let text = format!("\"kind\":\"{kind}\",\"counter\":\"a\",\"registers\":\"{registers}\"");
            of(&format!("{{\"registers\":{{{text}}}}}"))
        };
        let begin = |format: &str, version: u32| {
            of(&format!("{{\"dump\":{{\"format\":\"{format}\",\"version\":{version},\"time\":0}}}}"))
        };
        let long = format!("\"{}\"", encoded_bytes(&[0; 257]));
        for (text, expected) in [
            (String::new(), "a line of unique counters (EOF"),
            ("{\"line\":2}".to_owned(), "unknown field `line`"),
            (" ".repeat(MAX_LINE_BYTES + 1), "at most 65536 bytes"),
            (of("{\"samples\":{}}"), "unknown variant `samples`"),
            (of("{\"end\":{}}"), "missing field `counters`"),
            (begin("other", 1), "the format access-counter in version 1 to 2, not other"),
            (begin("access-counter", 3), "the dump is newer than this program"),
            (begin("access-counter", 0), "the dump is older than this program"),
            (items("bag", "\"a\"", "\"\""), "a kind: set, hll or adaptive"),
            (items("hll", "\"a\"", "\"\""), "registers: a HyperLogLog doesn't have items"),
            (items("set", "\"\"", "\"\""), "a counter name"),
            (items("set", "1", "\"\""), "invalid type"),
            (items("set", "\"a\"", ""), "1 to 500 items"),
            (items("set", "\"a\"", &vec!["\"\""; 501].join(",")), "1 to 500 items"),
            (items("set", "\"a\"", "\"!\""), "base64"),
            (items("adaptive", "\"a\"", &long), "an item of at most 256 bytes"),
            (registers("set", ""), "items: a set doesn't have registers"),
            (registers("hll", "AAAA"), "registers (not a HyperLogLog"),
        ] {
            let error = parse(text.as_bytes()).expect_err("not a line of unique counters");
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
