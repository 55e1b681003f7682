use fred::bytes::Bytes;

use super::RedisVisits;
use crate::error::Error;
use crate::family::shard::Shard;
use crate::redis::Call;
use crate::time::{DEFAULT_SAMPLES, Precisions, Timestamp};
use crate::visits::store::write::Cleaned;

/// Number of hash fields to process in a call, which takes the server about 1 ms.
const FIELDS_PER_CALL: u32 = 1000;
/// Number of members to scan in a step, which takes the server about 1 ms.
const MEMBERS_PER_STEP: u32 = 1000;
/// Number of hash fields to read from new members in a step, which takes the server about 1 ms.
const FIELDS_PER_STEP: u32 = 5000;

pub(crate) async fn clean(
    store: &RedisVisits,
    shard: Shard,
    now: Timestamp,
    retained: &Precisions,
) -> Result<Cleaned, Error> {
    let keys = store.keys(shard);
    let mut call =
        Call::new([&keys.known, &keys.due, &keys.scratch, &keys.sources, &keys.sources_due, &keys.total]);
    call.number(now);
    call.number(FIELDS_PER_CALL);
    call.push(keys.counts());
    call.push(keys.source());
    retention(&mut call, retained);
    let (samples, counters, more): (u64, u64, u64) = store.client.run(&store.clean, call).await?;
    Ok(Cleaned { samples, counters, more: more == 1 })
}

pub(crate) async fn adopt(
    store: &RedisVisits,
    shard: Shard,
    cursor: Option<String>,
    retained: &Precisions,
) -> Result<Option<String>, Error> {
    let keys = store.keys(shard);
    let mut call = Call::new([&keys.known, &keys.due, &keys.scratch]);
    call.push(cursor.map_or_else(|| "-".to_owned(), |member| format!("({member}")));
    call.number(MEMBERS_PER_STEP);
    call.number(FIELDS_PER_STEP);
    call.push(keys.counts());
    retention(&mut call, retained);
    let last: Bytes = store.client.run(&store.adopt, call).await?;
    Ok(cursor_of(&last))
}

/// Returns the cursor to continue after this member, or `None` if done. If the member is not valid UTF-8, the
/// scan will continue after all strings with the same valid prefix.
fn cursor_of(last: &[u8]) -> Option<String> {
    match str::from_utf8(last) {
        Ok(last) => Some(last.to_owned()).filter(|last| !last.is_empty()),
        Err(error) => {
            let text = String::from_utf8_lossy(&last[..error.valid_up_to()]).into_owned() + "\u{10ffff}";
            Some(text).filter(|text| text.as_bytes() > last)
        }
    }
}

fn retention(call: &mut Call, retained: &Precisions) {
    call.number(DEFAULT_SAMPLES);
    for retained in retained.iter() {
        call.push(retained.precision.to_string());
        call.number(retained.samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_continues_after_a_member_that_is_not_utf8() {
        assert_eq!(cursor_of(b""), None);
        assert_eq!(cursor_of(b"60:a"), Some("60:a".to_owned()));
        let after = cursor_of(b"60:\xf0\x01b").expect("the scan should continue");
        assert!(after.as_bytes() > &b"60:\xf0\x01b"[..] && after.as_bytes() < &b"86400:a"[..]);
        assert_eq!(cursor_of(b"60:\xff"), None, "no valid text follows");
    }
}
