use serde::{Deserialize, Serialize};

/// The version of a JSON document, as its first field. A document without this field is from before the first
/// release, which has the same fields.
///
/// Documents are read, changed and written, so a program would drop what it does not know. Therefore, a
/// document with a version above `NEWEST` can't be read. A number must never be used again for other fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct DocumentVersion<const NEWEST: u32>;

impl<const NEWEST: u32> TryFrom<u32> for DocumentVersion<NEWEST> {
    type Error = String;

    fn try_from(version: u32) -> Result<Self, String> {
        if version <= NEWEST {
            return Ok(Self);
        }
        Err(format!(
            "the document is newer than this program: it has version {version}, but this program only supports version \
             {NEWEST}; update this program"
        ))
    }
}

impl<const NEWEST: u32> From<DocumentVersion<NEWEST>> for u32 {
    fn from(_: DocumentVersion<NEWEST>) -> Self {
        NEWEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Sample {
        #[serde(default)]
        version: DocumentVersion<2>,
        more: u8,
    }

    #[test]
    fn only_documents_up_to_the_newest_version_are_read() {
        let text = serde_json::to_string(&Sample::default()).expect("a number");
        assert_eq!(text, r#"{"version":2,"more":0}"#);
        for readable in [&*text, r#"{"version":1,"more":0}"#, r#"{"more":0}"#] {
            assert_eq!(serde_json::from_str::<Sample>(readable).expect(readable), Sample::default());
        }
        // The version is the better reason if a newer document also has other fields.
        let error = serde_json::from_str::<Sample>(r#"{"version":3,"more":"text"}"#).expect_err("newer");
        assert!(
            error.to_string().starts_with("the document is newer than this program: it has version 3"),
            "{error}"
        );
    }
}
