/// A value in a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Int(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Numbers, for use with [`in_list`](super::Dialect::in_list).
    Ints(&'a [i64]),
    /// Strings, for use with `in_list`. Control characters are not allowed.
    Texts(&'a [&'a str]),
    /// Distinct ids with a number, for use with [`pairs`](super::Dialect::pairs).
    Pairs(&'a [(i64, i64)]),
}

/// Writes a JSON list or object.
#[cfg(any(feature = "mariadb", feature = "sqlite"))]
pub(super) fn json<T>(
    all: &[T],
    [open, close]: [char; 2],
    write: impl Fn(&mut String, &T) -> std::fmt::Result,
) -> String {
    let mut text = String::with_capacity(16 * all.len() + 2);
    text.push(open);
    for (index, item) in all.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(&mut text, item).expect("a `String` accepts any text");
    }
    text.push(close);
    text
}
