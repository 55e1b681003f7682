//! Writes databases of networks in the [MaxMind DB format](https://maxmind.github.io/MaxMind-DB/).

use std::net::IpAddr;

/// A value in the data section.
#[derive(Clone, Debug)]
pub enum Data {
    /// Text of at most 28 bytes.
    Text(&'static str),
    /// An unsigned number of 16 bits.
    U16(u16),
    /// An unsigned number of 32 bits.
    U32(u32),
    /// An unsigned number of 64 bits.
    U64(u64),
    /// An empty array.
    List,
    /// A map with at most 28 entries.
    Map(Vec<(&'static str, Self)>),
}

/// Writes a database with the data of these networks, given as an address and the length of the prefix. No network may
/// contain another.
///
/// # Panics
/// Panics if there are more than 2^24 nodes and bytes of data.
#[must_use]
pub fn database(kind: &'static str, networks: &[((&str, u8), Data)]) -> Vec<u8> {
    // A node has a record per bit: the number of another node, or of the data.
    let (mut nodes, mut data) = (vec![[Record::Empty; 2]], Vec::new());
    for (network, value) in networks {
        let (bits, length) = path(*network);
        let bit = |depth: u32| usize::from(bits >> (127 - depth) & 1 == 1);
        let mut node = 0;
        for depth in 0..length - 1 {
            node = match nodes[node][bit(depth)] {
                Record::Node(next) => next,
                Record::Empty | Record::Data(_) => {
                    nodes.push([Record::Empty; 2]);
                    nodes[node][bit(depth)] = Record::Node(nodes.len() - 1);
                    nodes.len() - 1
                }
            };
        }
        nodes[node][bit(length - 1)] = Record::Data(data.len());
        write(value, &mut data);
    }
    let mut file = Vec::new();
    for record in nodes.iter().flatten() {
        let number = match record {
            Record::Empty => nodes.len(),
            Record::Node(node) => *node,
            // The data section follows 16 bytes of zeros.
            Record::Data(at) => nodes.len() + 16 + at,
        };
        file.extend_from_slice(&u32::try_from(number).expect("a small database").to_be_bytes()[1..]);
    }
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    let metadata = [
        ("binary_format_major_version", Data::U16(2)),
        ("binary_format_minor_version", Data::U16(0)),
        ("build_epoch", Data::U64(1_790_000_000)),
        ("database_type", Data::Text(kind)),
        ("description", Data::Map(Vec::new())),
        ("ip_version", Data::U16(6)),
        ("languages", Data::List),
        ("node_count", Data::U32(u32::try_from(nodes.len()).expect("a small database"))),
        ("record_size", Data::U16(24)),
    ];
    write(&Data::Map(metadata.to_vec()), &mut file);
    file
}

/// Returns the data of a network in the format of MaxMind.
#[must_use]
pub fn country(code: &'static str) -> Data {
    Data::Map(vec![("country", Data::Map(vec![("iso_code", Data::Text(code))]))])
}

#[derive(Clone, Copy, Debug)]
enum Record {
    Empty,
    Node(usize),
    Data(usize),
}

/// Returns the bits of a network in the tree, and how many there are. IPv4 is below `::/96`.
fn path((address, length): (&str, u8)) -> (u128, u32) {
    match address.parse().expect("an address") {
        IpAddr::V4(address) => (u32::from(address).into(), 96 + u32::from(length)),
        IpAddr::V6(address) => (address.into(), length.into()),
    }
}

/// Appends a value: its type and size, then its bytes or entries.
fn write(value: &Data, to: &mut Vec<u8>) {
    let size = |size: usize| u8::try_from(size).ok().filter(|size| *size < 29).expect("a short value");
    match value {
        Data::Text(text) => {
            to.push(2 << 5 | size(text.len()));
            to.extend(text.as_bytes());
        }
        Data::U16(number) => to.extend([&[5 << 5 | 2][..], &number.to_be_bytes()].concat()),
        Data::U32(number) => to.extend([&[6 << 5 | 4][..], &number.to_be_bytes()].concat()),
        // Types above 7 are extended: they have a second byte.
        Data::U64(number) => to.extend([&[8, 9 - 7][..], &number.to_be_bytes()].concat()),
        Data::List => to.extend([0, 11 - 7]),
        Data::Map(entries) => {
            to.push(7 << 5 | size(entries.len()));
            for (key, value) in entries {
                write(&Data::Text(key), to);
                write(value, to);
            }
        }
    }
}
