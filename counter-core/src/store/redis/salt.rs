use fred::bytes::Bytes;

use super::Shared;
use super::script::Call;
use crate::{Bucket, Error, ErrorKind, Shard, Timestamp};

pub(super) async fn salt(
    shared: &Shared,
    epoch: Bucket,
    candidate: [u8; 16],
    expiry: Timestamp,
) -> Result<[u8; 16], Error> {
    let key = shared.keys(Shard::default()).salt(epoch);
    let mut call = Call::new([&key]);
    call.push(Bytes::copy_from_slice(&candidate));
    call.number(expiry);
    let kept: Bytes = shared.salt.run(&shared.route, call).await?;
    kept.as_ref().try_into().map_err(|_| Error::new(ErrorKind::Malformed { key }))
}
