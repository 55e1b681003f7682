use fred::bytes::Bytes;
use fred::types::Value;

use super::RedisVisits;
use crate::error::{Error, ErrorKind};
use crate::family::shard::Shard;
use crate::time::{Bucket, Timestamp};

pub(crate) async fn salt(
    store: &RedisVisits,
    epoch: Bucket,
    candidate: [u8; 16],
    expiry: Timestamp,
) -> Result<[u8; 16], Error> {
    let key = store.keys(Shard::default()).salt(epoch);
    let bytes = Bytes::copy_from_slice(&candidate);
    let offer: Vec<Value> =
        vec![(&key).into(), bytes.into(), "NX".into(), "EXAT".into(), expiry.to_string().into()];
    // We need two commands, because combining NX and GET in a single SET requires Redis 7.
    let _: Value = store.client.call("SET", &key, offer).await?;
    let retained: Option<Bytes> = store.client.call("GET", &key, vec![(&key).into()]).await?;
    // The salt of a past epoch is not stored.
    let Some(retained) = retained else { return Ok(candidate) };
    retained.as_ref().try_into().map_err(|_| Error::new(ErrorKind::Malformed { key }))
}
