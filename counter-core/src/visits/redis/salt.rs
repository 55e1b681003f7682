use fred::bytes::Bytes;
use fred::types::Value;

use super::RedisVisits;
use crate::shard::Shard;
use crate::time::Bucket;
use crate::{Error, ErrorKind, Timestamp};

pub(super) async fn salt(
    store: &RedisVisits,
    epoch: Bucket,
    candidate: [u8; 16],
    expiry: Timestamp,
) -> Result<[u8; 16], Error> {
    let key = store.keys(Shard::default()).salt(epoch);
    let bytes = Bytes::copy_from_slice(&candidate);
    let offer: Vec<Value> =
        vec![(&key).into(), bytes.into(), "NX".into(), "EXAT".into(), expiry.to_string().into()];
    // Two commands, since SET with NX and GET at once is of Redis 7 only.
    let _: Value = store.client.call("SET", &key, offer).await?;
    let kept: Option<Bytes> = store.client.call("GET", &key, vec![(&key).into()]).await?;
    // Of an epoch that is over nothing is kept.
    let Some(kept) = kept else { return Ok(candidate) };
    kept.as_ref().try_into().map_err(|_| Error::new(ErrorKind::Malformed { key }))
}
