use std::borrow::Cow;
use std::fmt;
use std::fmt::Write;

use crate::time::Timestamp;
use crate::visitor::{VisitorId, VisitorKey};

/// The dimensions of a window counter: named values like application, device or visitor.
///
/// The order is not significant, and setting a name again replaces the value. Values can come from requests:
/// different values never share a counter, regardless of the contents. The exception is text longer than
/// [`MAX_BYTES`](Self::MAX_BYTES), which is counted as `(other)` in order to limit the key length. Names must
/// come from code or configuration.
///
/// Personal data, in particular an address, must not appear in a store key. Add it as a
/// [`visitor`](Self::visitor) instead, via a [`VisitorKey`](crate::visitor::VisitorKey) that is not in the
/// store, such as the key of a [`Secret`](crate::Secret). Don't use ids derived from the shared
/// [salts](crate::visitor::Salt): these are for sketches, and the salt is in the store.
///
/// ```
/// use counter_core::visitor::VisitorKey;
/// use counter_core::window::Dimensions;
///
/// let key = VisitorKey::new([7; 16]);
/// let phone = Dimensions::new().text("app", "shop").visitor("address", key.visitor(&[b"192.0.2.1"]));
/// let same = Dimensions::new().visitor("address", key.visitor(&[b"192.0.2.1"])).text("app", "shop");
/// assert_eq!(phone, same);
///
/// let forged = Dimensions::new().text("app", "shop,device=tv");
/// assert_ne!(forged, Dimensions::new().text("app", "shop").text("device", "tv"));
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct Dimensions {
    scope: Option<String>,
    named: Vec<Dimension>,
}

/// A named value. The list is sorted by name, and names are unique.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Dimension {
    name: Cow<'static, str>,
    value: Value,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Value {
    /// Text, already escaped for the key.
    Text(String),
    Visitor(VisitorId),
}

/// Replacement value for long text. This can't collide with a text value because parentheses are escaped.
const OTHER: &str = "(other)";

/// Initial key capacity, which is enough for a limit by visitor. Longer keys need to reallocate.
const KEY_CAPACITY: usize = 64;

/// Prefix of visitor values. This can't collide with a text value because the character is escaped.
const VISITOR_PREFIX: char = '@';

impl Dimensions {
    /// Maximum length in bytes of a text value that is counted separately.
    pub const MAX_BYTES: usize = 128;

    /// Creates an empty set of dimensions, which is a valid counter.
    pub const fn new() -> Self {
        Self { scope: None, named: Vec::new() }
    }

    /// Sets a scope, e.g. the name of a limit. Counters in a scope are separate from all counters in other
    /// scopes or without a scope.
    pub fn scope(mut self, scope: &str) -> Self {
        self.scope = Some(escaped_or_other(scope));
        self
    }

    /// Adds a text value, which appears in store keys verbatim except for special characters.
    pub fn text(self, name: impl Into<Cow<'static, str>>, value: &str) -> Self {
        self.with(name.into(), Value::Text(escaped_or_other(value)))
    }

    /// Adds a person or thing identified by a keyed hash. The stored id is different in each window, and
    /// these ids can't be linked if the given id is not known.
    pub fn visitor(self, name: impl Into<Cow<'static, str>>, visitor: VisitorId) -> Self {
        self.with(name.into(), Value::Visitor(visitor))
    }

    fn with(mut self, name: Cow<'static, str>, value: Value) -> Self {
        match self.named.binary_search_by(|dimension| dimension.name.cmp(&name)) {
            Ok(index) => self.named[index].value = value,
            Err(index) => self.named.insert(index, Dimension { name, value }),
        }
        self
    }

    /// Formats all dimensions as text, such as `(scope)app=shop,device=tv`. This is unique within the window.
    pub(crate) fn key(&self, width: u32, start: Timestamp) -> String {
        let mut key = String::with_capacity(KEY_CAPACITY);
        self.write(&mut key, |visitor| id_in_window(*visitor, width, start));
        key
    }

    /// Like [`key`](Self::key), but for a block of parts of a sliding window of width `of`. This can't collide
    /// with other keys because the asterisk is escaped.
    pub(super) fn sliding_key(&self, of: u32, width: u32, start: Timestamp) -> String {
        let mut key = String::with_capacity(KEY_CAPACITY);
        write!(key, "{of}*").expect("memory takes everything");
        self.write(&mut key, |visitor| id_in_window(*visitor, width, start));
        key
    }

    /// Formats all dimensions. The result is the same in every window, so it must not be stored.
    pub(super) fn placement(&self) -> String {
        let mut key = String::with_capacity(KEY_CAPACITY);
        self.write(&mut key, |visitor| *visitor);
        key
    }

    fn write(&self, key: &mut String, id: impl Fn(&VisitorId) -> VisitorId) {
        if let Some(scope) = &self.scope {
            key.extend(["(", scope, ")"]);
        }
        for (index, dimension) in self.named.iter().enumerate() {
            if index > 0 {
                key.push(',');
            }
            dimension.write(key, &id);
        }
    }

    /// Formats a single dimension. The result is the same in every window, so it must not be stored.
    pub(crate) fn group(&self, name: &str) -> Option<String> {
        let dimension = self.named.iter().find(|dimension| dimension.name == name)?;
        let mut key = String::new();
        dimension.write(&mut key, |visitor| *visitor);
        Some(key)
    }
}

impl Dimension {
    fn write(&self, key: &mut String, id: impl Fn(&VisitorId) -> VisitorId) {
        escape(&self.name, key);
        key.push('=');
        match &self.value {
            Value::Text(text) => key.push_str(text),
            Value::Visitor(visitor) => {
                key.push(VISITOR_PREFIX);
                let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
                let digits = id(visitor).as_bytes().map(|byte| [digit(byte >> 4), digit(byte & 15)]);
                key.push_str(str::from_utf8(digits.as_flattened()).expect("digits are ASCII"));
            }
        }
    }
}

fn escaped_or_other(text: &str) -> String {
    if text.len() > Dimensions::MAX_BYTES { OTHER.to_owned() } else { escaped(text) }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    escape(text, &mut escaped);
    escaped
}

/// Copies ASCII letters, digits and `-._~/`, and writes all other bytes as `%XX`.
fn escape(text: &str, to: &mut String) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    // Fast path for names and typical values.
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return to.push_str(text);
    }
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            to.push(char::from(byte));
        } else {
            to.extend(['%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

// Visitor ids must not be logged.
impl fmt::Debug for Dimensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let formatted = |Dimension { name, value }: &Dimension| match value {
            Value::Visitor(_) => (name.clone(), "..".to_owned()),
            Value::Text(text) => (name.clone(), text.clone()),
        };
        f.debug_map().entries(self.named.iter().map(formatted)).finish()
    }
}

/// Derives the visitor id for a window. Ids of different windows can't be linked if the original id is not
/// known.
pub(super) fn id_in_window(visitor: VisitorId, width: u32, start: Timestamp) -> VisitorId {
    let parts: [&[u8]; 2] = [&width.to_le_bytes(), &start.as_unix().to_le_bytes()];
    VisitorKey::new(*visitor.as_bytes()).visitor(&parts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::visitor::VisitorKey;

    const NAMES: [&str; 4] = ["app", "a", "a=b", "device"];

    /// Values use a small alphabet, so that different dimensions have similar keys.
    fn dimensions() -> impl Strategy<Value = Vec<(usize, String)>> {
        proptest::collection::vec((0..NAMES.len(), "[a=,%@(){}:é0-9]{0,6}"), 0..4)
    }

    fn of(pairs: &[(usize, String)]) -> Dimensions {
        pairs.iter().fold(Dimensions::new(), |all, (name, value)| all.text(NAMES[*name], value))
    }

    /// Returns the final value of each name.
    fn last_values(pairs: &[(usize, String)]) -> std::collections::BTreeMap<usize, String> {
        pairs.iter().cloned().collect()
    }

    proptest! {
        #[test]
        fn keys_are_equal_if_and_only_if_dimensions_are(one in dimensions(), other in dimensions()) {
            prop_assert_eq!(of(&one).key(60, Timestamp::MIN) == of(&other).key(60, Timestamp::MIN), last_values(&one) == last_values(&other));
        }

        #[test]
        fn scopes_do_not_share_counters(
            scopes in proptest::collection::vec("[a=,%@(){}:é0-9]{0,6}", 2),
            one in dimensions(),
            other in dimensions(),
        ) {
            let key = |pairs: &[_], scope: Option<&String>| {
                let dimensions = of(pairs);
                let scoped = scope.map_or(dimensions.clone(), |scope| dimensions.scope(scope));
                scoped.key(60, Timestamp::MIN)
            };
            let same = scopes[0] == scopes[1] && last_values(&one) == last_values(&other);
            prop_assert_eq!(key(&one, Some(&scopes[0])) == key(&other, Some(&scopes[1])), same);
            prop_assert_ne!(key(&one, Some(&scopes[0])), key(&other, None));
        }

        #[test]
        fn escaped_text_can_be_decoded(text in ".{0,32}") {
            let key = Dimensions::new().text("a", &text).key(60, Timestamp::MIN);
            let value = key.strip_prefix("a=").expect("the name");
            let plain = value.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}:,=@()".contains(&byte));
            prop_assert!(plain, "{}", value);
            let mut pieces = value.split('%');
            let mut bytes = pieces.next().expect("the start").as_bytes().to_vec();
            for piece in pieces {
                bytes.push(u8::from_str_radix(&piece[..2], 16).expect("digits"));
                bytes.extend_from_slice(&piece.as_bytes()[2..]);
            }
            prop_assert_eq!(String::from_utf8(bytes).expect("the original text"), text);
        }
    }

    #[test]
    fn visitors_are_formatted_in_hexadecimal() {
        let visitor = VisitorKey::new([1; 16]).visitor(&[b"192.0.2.1"]);
        let digits = u128::from_be_bytes(*id_in_window(visitor, 60, Timestamp::MIN).as_bytes());
        let key = Dimensions::new().visitor("a", visitor).key(60, Timestamp::MIN);
        assert_eq!(key, format!("a=@{digits:032x}"));
    }

    #[test]
    fn text_does_not_collide_with_visitors_or_other() {
        let visitor = VisitorKey::new([1; 16]).visitor(&[b"192.0.2.1"]);
        let hashed = Dimensions::new().visitor("a", visitor).key(60, Timestamp::MIN);
        let value = hashed.strip_prefix("a=").expect("the name");
        assert_ne!(Dimensions::new().text("a", value).key(60, Timestamp::MIN), hashed);
        let long = |letter: &str| {
            Dimensions::new().text("a", &letter.repeat(Dimensions::MAX_BYTES + 1)).key(60, Timestamp::MIN)
        };
        assert_eq!(long("x"), long("y"));
        assert_eq!(long("x"), "a=(other)");
        assert_ne!(Dimensions::new().text("a", "(other)").key(60, Timestamp::MIN), long("x"));
        assert!(
            Dimensions::new().text("a", &"{".repeat(Dimensions::MAX_BYTES)).key(60, Timestamp::MIN).len()
                == 2 + 3 * 128
        );
    }

    #[test]
    fn visitor_ids_differ_between_windows_but_not_between_groups() {
        let ann = VisitorKey::new([1; 16]).visitor(&[b"ann"]);
        let dimensions = Dimensions::new().visitor("a", ann);
        let keys = [(60, 0), (60, 60), (3600, 0)].map(|(width, start)| {
            assert_eq!(
                dimensions.group("a"),
                Some(format!("a=@{:032x}", u128::from_be_bytes(*ann.as_bytes())))
            );
            dimensions.key(width, Timestamp::from_unix(start))
        });
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2], "{keys:?}");
        assert_eq!(dimensions.key(60, Timestamp::MIN), keys[0]);
    }

    #[test]
    fn visitors_are_not_logged() {
        let visitor = VisitorKey::new([1; 16]).visitor(&[b"192.0.2.1"]);
        let formatted = format!("{:?}", Dimensions::new().text("app", "shop").visitor("a", visitor));
        assert_eq!(formatted, r#"{"a": "..", "app": "shop"}"#);
    }
}
