use std::fmt;

/// A kind of entity like a post, with its counted fields. Usually implemented by [`entity!`](crate::entity!).
pub trait Entity: Copy + Eq + fmt::Debug + Send + Sync + 'static {
    /// Kind name: 1 to 32 lowercase letters, digits and underscores.
    const NAME: &'static str;

    /// Field names in [`index`](Self::index) order: at most 32, with the same format as the kind name.
    const FIELDS: &'static [&'static str];

    /// All fields in [`index`](Self::index) order.
    const ALL: &'static [Self];

    /// Returns the position of this field in [`FIELDS`](Self::FIELDS).
    fn index(self) -> usize;

    /// Returns the field name.
    #[must_use]
    fn name(self) -> &'static str {
        Self::FIELDS[self.index()]
    }
}

/// Declares a kind of entity as an enum with a variant for each counted field.
///
/// The string names are used in the database and cache and must not change, but you can rename variants.
/// Names that are not 1 to 32 lowercase letters, digits and underscores will not compile.
///
/// ```
/// use counter_core::entity::Entity;
/// use counter_core::entity;
///
/// entity! {
///     /// Counted fields of a post.
///     pub enum Post: "post" {
///         /// Number of views.
///         Views = "views",
///         /// Number of likes.
///         Likes = "likes",
///     }
/// }
///
/// assert_eq!((Post::NAME, Post::Likes.name()), ("post", "likes"));
/// ```
#[macro_export]
macro_rules! entity {
    (
        $(#[$about:meta])*
        $visibility:vis enum $kind:ident: $name:literal {
            $($(#[$about_field:meta])* $field:ident = $field_name:literal),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $kind {
            $($(#[$about_field])* $field),+
        }

        impl $crate::entity::Entity for $kind {
            const NAME: &'static str = $name;
            const FIELDS: &'static [&'static str] = &[$($field_name),+];
            const ALL: &'static [Self] = &[$(Self::$field),+];

            fn index(self) -> usize {
                self as usize
            }
        }

        const _: () = {
            assert!($crate::entity::is_entity_name($name), "not the name of a kind");
            $(assert!($crate::entity::is_entity_name($field_name), "not the name of a field");)+
            assert!(<$kind as $crate::entity::Entity>::FIELDS.len() <= 32, "more than 32 fields");
        };
    };
}

/// Returns `true` if a name consists of 1 to 32 lowercase letters, digits and underscores.
#[must_use]
pub const fn is_entity_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !matches!(bytes[at], b'a'..=b'z' | b'0'..=b'9' | b'_') {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty() && bytes.len() <= 32
}

#[cfg(test)]
mod tests {
    use super::is_entity_name;

    #[test]
    fn names_are_short_and_lowercase() {
        for (name, fine) in
            [("post_2", true), ("", false), ("Post", false), ("a:b", false), (&"x".repeat(33), false)]
        {
            assert_eq!(is_entity_name(name), fine, "{name}");
        }
    }
}
