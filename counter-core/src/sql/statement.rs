/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Int(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Numbers, for [`in_list`](super::Dialect::in_list).
    Ints(&'a [i64]),
    /// Texts, for the same; without control characters.
    Texts(&'a [&'a str]),
    /// Different ids, each with a number, for [`pairs`](super::Dialect::pairs).
    Pairs(&'a [(i64, i64)]),
}

/// Writes a list of JSON, or an object.
#[cfg(any(feature = "mariadb", feature = "sqlite"))]
pub(super) fn json<T>(
    all: &[T],
    [open, close]: [char; 2],
    write: impl Fn(&mut String, &T) -> std::fmt::Result,
) -> String {
    let mut text = String::with_capacity(16 * all.len() + 2);
    text.push(open);
    for (place, one) in all.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        write(&mut text, one).expect("a `String` accepts any text");
    }
    text.push(close);
    text
}
