use std::fmt;

use super::signed::secrets::MIN_TOKEN_CHARS;

/// An error of a text that cannot be a token, a name or a password.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessError {
    /// The token has fewer than [`Access::MIN_TOKEN_CHARS`](crate::Access::MIN_TOKEN_CHARS) characters.
    ShortToken {
        /// A random token with 128 bits of entropy, to use instead. The error message shows it.
        suggestion: String,
    },
    /// The token has other characters than letters, digits and `-._~+/=`.
    TokenCharacters,
    /// The name or the password is empty or has a control character, or the name has a colon.
    NameOrPassword,
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShortToken { suggestion } => {
                write!(
                    f,
                    "a token has at least {MIN_TOKEN_CHARS} characters, because shorter ones can be guessed"
                )?;
                if suggestion.is_empty() { Ok(()) } else { write!(f, "; a random one is {suggestion}") }
            }
            Self::TokenCharacters => f.write_str("a token has only letters, digits and -._~+/="),
            Self::NameOrPassword => f.write_str(
                "a name and a password are not empty and have no control characters, and a name has no colon",
            ),
        }
    }
}

impl std::error::Error for AccessError {}

counter_core::internal::debug_in_full!(AccessError);
