//! Writes databases of networks in the [MaxMind DB format](https://maxmind.github.io/MaxMind-DB/).

use std::net::IpAddr;

/// A value in the data section.
#[derive(Clone, Debug)]
pub enum Data {
    Text(&'static str),
    Number(u64),
    List,
    Map(Vec<(&'static str, Data)>),
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
        ("binary_format_major_version", Data::Number(2)),
        ("binary_format_minor_version", Data::Number(0)),
        ("build_epoch", Data::Number(1_790_000_000)),
        ("database_type", Data::Text(kind)),
        ("description", Data::Map(Vec::new())),
        ("ip_version", Data::Number(6)),
        ("languages", Data::List),
        ("node_count", Data::Number(nodes.len() as u64)),
        ("record_size", Data::Number(24)),
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
        Data::Number(number) => {
            // An unsigned number of up to 64 bits is an extended type.
            to.extend([8, 9 - 7]);
            to.extend(number.to_be_bytes());
        }
        // An empty array is an extended type.
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
