#[cfg(any(feature = "mariadb", feature = "sqlite"))]
use std::fmt::Write;

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

/// Makes a query of a text and its values, for one driver; `$kind` chooses how lists travel.
macro_rules! query {
    ($kind:ident $driver:ty, $text:expr, $values:expr) => {{
        let mut query = sqlx::QueryBuilder::<$driver>::new("");
        let mut values = $values.iter().copied();
        for (place, piece) in $text.split('?').enumerate() {
            if place > 0 {
                match values.next() {
                    Some(Value::Int(number)) => drop(query.push_bind(number)),
                    Some(Value::Text(text)) => drop(query.push_bind(text)),
                    Some(Value::Bytes(bytes)) => drop(query.push_bind(bytes)),
                    Some(Value::Ints(all)) => query!(@list $kind query all json_numbers),
                    Some(Value::Texts(all)) => query!(@list $kind query all json_texts),
                    Some(Value::Pairs(all)) => query!(@pairs $kind query all),
                    None => unreachable!("a statement has a value for each mark"),
                }
            }
            query.push(piece);
        }
        query
    }};
    (@list sqlite $query:ident $all:ident $json:ident) => { drop($query.push_bind($crate::sql::statement::$json($all))) };
    (@list postgres $query:ident $all:ident $json:ident) => { drop($query.push_bind($all)) };
    (@list mariadb $query:ident $all:ident $json:ident) => {{
        let mut list = $query.separated(", ");
        for one in $all {
            list.push_bind(*one);
        }
    }};
    (@pairs sqlite $query:ident $all:ident) => { drop($query.push_bind($crate::sql::statement::json_object($all))) };
    (@pairs postgres $query:ident $all:ident) => {{
        let (ids, numbers): (Vec<i64>, Vec<i64>) = $all.iter().copied().unzip();
        $query.push_bind(ids).push(", ").push_bind(numbers);
    }};
    (@pairs mariadb $query:ident $all:ident) => { drop($query.push_bind($crate::sql::statement::json_pairs($all))) };
}

pub(super) use query;

/// Writes the pieces of a list with commas between them.
#[cfg(any(feature = "mariadb", feature = "sqlite"))]
fn listed<T>(all: &[T], [open, close]: [char; 2], mut write: impl FnMut(&mut String, &T)) -> String {
    let mut text = String::with_capacity(16 * all.len() + 2);
    text.push(open);
    for (place, one) in all.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        write(&mut text, one);
    }
    text.push(close);
    text
}

#[cfg(any(feature = "mariadb", feature = "sqlite"))]
const NO_END: &str = "memory takes everything";

#[cfg(feature = "sqlite")]
pub(super) fn json_numbers(all: &[i64]) -> String {
    listed(all, ['[', ']'], |text, number| write!(text, "{number}").expect(NO_END))
}

#[cfg(feature = "sqlite")]
pub(super) fn json_texts(all: &[&str]) -> String {
    listed(all, ['[', ']'], |text, one| {
        text.push('"');
        for character in one.chars() {
            if matches!(character, '"' | '\\') {
                text.push('\\');
            }
            text.push(character);
        }
        text.push('"');
    })
}

/// Pairs as members of an object, which SQLite reads without taking each value apart.
#[cfg(feature = "sqlite")]
pub(super) fn json_object(all: &[(i64, i64)]) -> String {
    listed(all, ['{', '}'], |text, (id, number)| write!(text, "\"{id}\":{number}").expect(NO_END))
}

#[cfg(feature = "mariadb")]
pub(super) fn json_pairs(all: &[(i64, i64)]) -> String {
    listed(all, ['[', ']'], |text, (id, number)| write!(text, "[{id},{number}]").expect(NO_END))
}
