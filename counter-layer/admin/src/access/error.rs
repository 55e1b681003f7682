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
                    "a token must have at least {MIN_TOKEN_CHARS} characters, because shorter tokens can be guessed"
                )?;
                if suggestion.is_empty() { Ok(()) } else { write!(f, "; you can use {suggestion}") }
            }
            Self::TokenCharacters => f.write_str("a token must only contain letters, digits and -._~+/="),
            Self::NameOrPassword => f.write_str(
                "name and password must not be empty or contain control characters, and the name must not contain a colon",
            ),
        }
    }
}

impl std::error::Error for AccessError {}

counter_core::internal::debug_in_full!(AccessError);
