use std::fmt;

use super::signed::secrets::MIN_TOKEN_CHARS;

/// An invalid token, name or password.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessError {
    /// The token is shorter than [`Access::MIN_TOKEN_CHARS`](crate::Access::MIN_TOKEN_CHARS).
    ShortToken {
        /// A random token with 128 bits of entropy, to use instead. The error message includes it.
        suggestion: String,
    },
    /// The token contains characters other than letters, digits and `-._~+/=`.
    TokenCharacters,
    /// The name or the password is empty or contains a control character, or the name contains a colon.
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
