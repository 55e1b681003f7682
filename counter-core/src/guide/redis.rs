//! Running on Redis or Valkey: permissions, keys, memory, and the symptoms of failures.
//!
//! # Which server
//!
//! You need Redis 6.2 or later, or Valkey. This can be a single server, a master with replicas under
//! Sentinel, or a cluster. [`RedisBuilder`](crate::stores::RedisBuilder) documents the address format for
//! each setup. To see what the server supports, and which settings break a guarantee, call
//! [`RedisStore::server`](crate::RedisStore::server). The same information is logged at startup and, if a
//! cleaner is running, when the settings change. The `maxmemory-policy` should be `noeviction`; the
//! consequences of the other policies are listed [below](#memory-and-eviction).
//!
//! Our tests run on these servers. Others may work, and [`RedisServer`](crate::stores::RedisServer) says what is
//! missing:
//!
//! | server | |
//! |---|---|
//! | Redis 6.2, 7.0, 8.2 | all features |
//! | Valkey 9.1 | all features |
//! | a server that only permits declared keys in scripts, such as Dragonfly by default | transactions are used instead of scripts |
//! | Redis 6.0 or earlier | not supported: batches are not sent |
//!
//! # Rights
//!
//! For the namespace `access:` and the user `counter`, these are all the permissions needed:
//!
//! ```text
//! ACL SETUSER counter on >secret ~access:* ~{access:* -@all +eval +evalsha +get +set +mget +del +exists +expireat +time +hincrby +hget +hset +hsetnx +hscan +hgetall +hmget +hlen +hkeys +hdel +zadd +zrem +zscore +zrangebyscore +zrangebylex +pfadd +pfcount +pfmerge
//! ```
//!
//! The second pattern is for shards. In a cluster, you will also need `+cluster|slots`. If scripts are not
//! allowed, replace the first two permissions by `+watch +unwatch +multi +exec +discard`. The guarantees stay
//! the same, but this will cost more. If the user may run neither scripts nor transactions, then batches
//! can't be applied, and [`last_error`](crate::Health::last_error) will say so:
//!
//! ```text
//! ACL SETUSER plain on >secret ~access:* ~{access:* -@all +watch +unwatch +multi +exec +discard +get +set +mget +del +exists +expireat +time +hincrby +hget +hset +hsetnx +hscan +hgetall +hmget +hkeys +hdel +zadd +zrem +zscore +zrangebyscore +zrangebylex +pfadd +pfcount +pfmerge
//! ```
//!
//! We recommend to add `+info`. This is used to decide whether a server has lost all data or just evicted
//! keys, because the batches of the last minute should only be sent again in the first case. If the
//! permission is missing, or if the server has evicted any key since it was started, this can't be decided,
//! and the batches will not be sent again.
//!
//! If a permission is missing, or if a key pattern does not include a key of the store, batches are not applied
//! and hits wait until it is granted. [`last_error`](crate::Health::last_error) contains the words of the
//! server. Hits are only dropped if a key has a value that can't be changed, e.g. a string instead of a hash.
//! This is counted in the ledger, and an error is logged with the words of the server. If only the cleaner or
//! reads of visitors need a missing permission (`EXISTS`, `HDEL`, `HSET`, `ZREM`), hits are counted, and the hint
//! `commands_refused` is shown.
//!
//! # The id and the grid of a namespace
//!
//! The key `document:store` contains the [id](crate::visits::StoreId) of the namespace and the grid of its
//! counters, i.e. precisions, offsets and retention. It will be written by the first process. If the server
//! loses all data, this key is lost too, and the next process will write a new id; counting continues in the
//! meantime. Dumps, spools and archives compare the id to avoid double counting. If the stored grid is not
//! the same as the configured grid, the hint `grid_differs` is reported. Use
//! [`Builder::grid_of_store`](crate::Builder::grid_of_store) to adopt the stored grid, or
//! [`Counters::change_grid`](crate::Counters::change_grid) to replace it.
//!
//! # Memory and eviction
//!
//! If a server reaches `maxmemory`, then `maxmemory-policy` decides which keys to evict. Any policy other
//! than `noeviction` may remove keys that should be retained:
//!
//! | policy | what is evicted | effect |
//! |---|---|---|
//! | `noeviction`, the default | no keys: writes are rejected (`OOM`) | hits wait in the process until there is free memory; limits behave as if the store is unavailable; no data is lost |
//! | `volatile-lru`, `-lfu`, `-random`, `-ttl` | keys with an expiry: visitors, salts, and windows | unique visitors are too low; if a salt is evicted, visitors of that epoch are counted again; a window restarts at 0, so a limit allows more than configured; counts, totals and sets of unique counters are not affected |
//! | `allkeys-…` | any keys | counts and totals may become lower than acknowledged; a batch in flight is dropped as in doubt if the fence was evicted; hits are not counted twice, except for a [source](crate::source) that lost both position keys, because this log will be counted from the start |
//!
//! Check `INFO memory` to see how close the server is to `maxmemory`. To estimate the memory needed by a
//! counter, see [the scaling guide](crate::guide::scale).
//!
//! # Days of the site
//!
//! With [`Builder::utc_offset`](crate::Builder::utc_offset), days start at midnight of the site instead of
//! midnight UTC. The offset is part of the key: for example, `access:count:86400@82800:hits` has days that
//! start 82,800 s after midnight UTC, i.e. at midnight in UTC+01:00. Daylight saving time is not supported.
//! All instances must use the same offset, because an instance only counts and reads days with the configured
//! offset. If you change the offset, the days start from scratch, and the old days will be removed at the end
//! of their retention. Programs that only support the layout of the book don't understand such keys, and
//! their cleaner might fail on them.
//!
//! # Sharing the layout of the book
//!
//! With an empty [`Namespace`](crate::stores::Namespace) and without shards, the keys are the same as in
//! *Redis in Action* (section 5.2.1), so an existing program that uses this layout can count into the same
//! server. Its counters will be listed, read and cleaned like any other counter. However, that layout doesn't
//! have lifetime totals: if a counter is only fed by such a program, it has a total for any range, but the
//! lifetime is 0, or `null` in the `/api/lifetimes` response of an admin router.
//!
//! # TLS
//!
//! If the system trusts the certificate of the server, just use a `rediss://` address. This needs one of these
//! features:
//!
//! | feature | library | if your application |
//! |---|---|---|
//! | `rustls` | rustls on ring | uses ring, or no rustls |
//! | `rustls-aws-lc-rs` | rustls on aws-lc-rs | uses aws-lc-rs, which is the default of rustls, reqwest and axum-server |
//! | `native-tls` | the library of the system | already uses it |
//!
//! If more than one of them is enabled, the order is `rustls-aws-lc-rs`, `rustls`, `native-tls`. If your
//! application has called `CryptoProvider::install_default`, both `rustls` features use that provider instead.
//! We never install one. With `rustls` in an application that uses aws-lc-rs, two providers are compiled. Our
//! own connections work, but the application's own `ClientConfig::builder()` or `ServerConfig::builder()` will
//! panic, unless it installs one of them first. There is no feature without a provider, because fred always
//! compiles one.
//!
//! To use your own certificate authority or a client certificate, create a configuration for the client
//! `fred`, which is exported by the feature `own-client`. Use a `redis://` address for this: with `rediss://`,
//! fred would build a default connector, and panic if two providers are compiled.
//!
//! ```no_run
//! # #[cfg(all(feature = "own-client", feature = "rustls"))]
//! # async fn connect() -> Result<counter_core::RedisStore, Box<dyn std::error::Error>> {
//! use counter_core::RedisStore;
//! use counter_core::unstable::OwnClient;
//! use counter_core::unstable::fred::prelude::{Config, TlsConnector};
//! use counter_core::unstable::fred::rustls::pki_types::pem::PemObject;
//! use counter_core::unstable::fred::rustls::pki_types::{CertificateDer, PrivateKeyDer};
//! use counter_core::unstable::fred::rustls::{ClientConfig, RootCertStore, crypto::ring};
//!
//! let mut roots = RootCertStore::empty();
//! for authority in CertificateDer::pem_file_iter("authority.pem")? {
//!     roots.add(authority?)?;
//! }
//! let chain = vec![CertificateDer::from_pem_file("client.pem")?];
//! let key = PrivateKeyDer::from_pem_file("client.key")?;
//! // If the server does not need a client certificate: `with_no_client_auth()`.
//! let tls = ClientConfig::builder_with_provider(ring::default_provider().into())
//!     .with_safe_default_protocol_versions()?
//!     .with_root_certificates(roots)
//!     .with_client_auth_cert(chain, key)?;
//!
//! let mut config = Config::from_url("redis://redis.internal:6379")?;
//! config.tls = Some(TlsConnector::from(tls).into());
//! let store = RedisStore::builder().connect_with(config).await?;
//! # Ok(store)
//! # }
//! ```
//!
//! # Sentinel
//!
//! The address must contain the sentinels and the service name:
//! `redis-sentinel://10.0.0.1:26379?sentinelServiceName=main&node=10.0.0.2:26379`. The master is looked up
//! via the sentinels for every new connection. If the sentinels have a separate password, you will need the
//! feature `own-client`. We recommend to set `min-replicas-to-write 1`, so that an isolated master rejects
//! writes that would be lost later. In this case the hits will wait.
//!
//! # Clusters and shards
//!
//! In a cluster, the counters are distributed to 16 hash tags, `{access:0}` to `{access:15}`, so that a hash
//! tag is always in a single slot. Use [`RedisBuilder::shards`](crate::stores::RedisBuilder::shards) to
//! configure another number. The number must be the same in all instances that use the store, including
//! readers, because it determines the shard of a counter. Thus it can't be changed if the store already
//! contains data.
//!
//! # Unix sockets
//!
//! The address of a socket is `redis+unix:///run/redis/redis.sock`.
//!
//! # Using your own client
//!
//! With the feature `own-client`, you can share a client with the rest of your application. The client keeps
//! the reconnect settings that you configured, and will not be replaced when its task ends. In a cluster, it
//! must be configured as described at [`OwnClient::client`](crate::unstable::OwnClient::client).
//!
//! ```no_run
//! # #[cfg(feature = "own-client")]
//! # async fn connect() -> Result<counter_core::RedisStore, Box<dyn std::error::Error>> {
//! use counter_core::RedisStore;
//! use counter_core::unstable::OwnClient;
//! use counter_core::unstable::fred::prelude::*;
//!
//! let client = Builder::from_config(Config::from_url("redis://127.0.0.1:6379")?)
//!     .with_connection_config(|connection| connection.max_redirections = 0)
//!     .build()?;
//! client.init().await?;
//! let store = RedisStore::builder().client(client);
//! # Ok(store)
//! # }
//! ```
//!
//! # When things go wrong
//!
//! Failures of the server don't affect requests, because these only count in memory. The hits will wait there
//! and keep their buckets until the server accepts them. In the meantime,
//! [`Health::failing_for`](crate::Health::failing_for) returns how long this has been going on,
//! [`last_error`](crate::Health::last_error) returns the reason, and
//! [`Hits::pending`](crate::visits::Hits::pending) in the ledger returns the number of waiting hits. A
//! warning, `the store does not accept batches`, is logged at the start of an outage, and a message at the
//! end. Reads fail with [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) or
//! [`Rejected`](crate::ErrorKind::Rejected), for which the admin pages return status 503.
//!
//! | failure | reaction | `last_error` and other symptoms |
//! |---|---|---|
//! | the server is unavailable, at startup or later | the service runs normally and continues to reconnect | `Connection refused`, immediately |
//! | the host name can't be resolved | the same | `failed to lookup address information` |
//! | the password is wrong, at startup or after a rotation | the same; connecting is retried because the password might become valid | `WRONGPASS`; a rotation is noticed when the connection breaks, because the server keeps existing connections |
//! | the certificate is not trusted | the same; no data is sent | the certificate error |
//! | no reply: packets are dropped, a half-open connection, a peer that doesn't read | the connection is closed and reopened after 3 s without a reply | `Unresponsive connection`, or a timeout; `connections` increases |
//! | replies are slow, or `CLIENT PAUSE` | replies are awaited if there are less than 3 s without any data | more pending hits |
//! | the client task ends, or 3 consecutive calls get no reply | the client is replaced | `the connection to the store hangs and will be replaced` in the log; `connections` increases |
//! | `LOADING`: the server is loading data | batches are sent again | `LOADING` |
//! | `OOM`, `NOREPLICAS`, `MISCONF` if saving fails, `BUSY` during a long script | not applied; batches are sent again | the same words |
//! | `READONLY`: the master became a replica | the connection is reopened, to find the new master via Sentinel or by name | `READONLY` |
//! | `SCRIPT FLUSH`, a restart | the full script is sent again | none |
//! | scripts are not allowed, or only with keys that are declared | transactions are used instead; a script is tried again every minute | a warning with the server message; [`RedisServer::scripts`](crate::redis::RedisServer::scripts) is `false` |
//! | transactions are not allowed either | not applied; batches are sent again | `neither scripts nor transactions (MULTI) are permitted`, and the same warning at startup |
//! | a permission or key pattern is missing, or a command is renamed | not applied, or undone; batches are sent again | the words of the server, and a warning with the first batch |
//! | a permission of the cleaner or of reads is missing | hits count, but old data is not removed, or visitors can't be read | the hint `commands_refused`, and a warning that names the command |
//! | the key of the visitor salts is not permitted | hits count, but a person who reaches several processes is several visitors | the hint `salt_not_shared`, and a warning |
//! | the server is older than Redis 6.2 | not applied; batches are sent again | `the server refuses ZADD LT`, and the hint `store_outdated` |
//! | the server has another HyperLogLog encoding | hits count, but visitors can't be read | the hint `visitors_unreadable` |
//! | a failover loses acknowledged data | the batches of the last minute, up to 16 MiB, are sent again | a warning with the number; older batches are [`lost_by_server`](crate::visits::Hits::lost_by_server) |
//! | the data set is lost or flushed, or the new master never received data from this process | the same: batches of the last minute are sent again, older data is lost | the same |
//! | a cluster node is unavailable | its shards wait, other shards continue; its counters can't be read | the error of the shard that has been failing for the longest time |
//! | a slot is migrated to another node | the shard waits until all keys have been moved; until then, reads fail | `TRYAGAIN`, `ASK` or `MOVED`, during the migration |
//! | a key has an unexpected value (`WRONGTYPE`, not a number, overflow) | this bucket is left unchanged, and the other buckets get the hits; batches are not held up | [`dropped`](crate::visits::Hits::dropped) by reason, and a single error in the log; `failing_for` is `None` |
//! | keys are evicted | their data is lost, but not counted twice: see [memory and eviction](#memory-and-eviction) | a warning at startup that contains the policy |
//! | the fence of a process is lost, but its counts are not (evicted, deleted manually, idle for 30 days) | the fence is created again after the last acknowledged batch, and no batch is sent again | a warning; the batch in flight is [`in_doubt`](crate::visits::Dropped::in_doubt), with the hint `fence_lost` |
//! | the address leads to another server, and later back | either server gets the missing batches of the last minute, with the same sequences as before, so they are not counted twice; an idle process checks every 5 s | the hint `store_went_back`; older hits are `lost_by_server` |
//! | the clock of a machine is ahead | its cleaner uses the server clock; its hits count in the buckets of its local time, and hits more than 25 hours ahead are [`dropped`](crate::visits::Dropped::ahead) | [`clock_skew`](crate::Health::clock_skew), and a warning above 5 s |
//! | a store, log or metrics recorder panics while called by the flusher or the cleaner | the panic is caught, and the batch is sent again | `a call panicked` |
//! | `run` is not polled, or its task has ended | hits wait | [`stalled_for`](crate::Health::stalled_for), and the health check fails |
//! | the clock jumps back and forth | hits count in the buckets of the local time, including up to 25 hours in the future; such buckets are cleaned when their retention ends | a gap and a peak in the series |
//! | the process is killed | hits that the server has not acknowledged are lost, i.e. one `flush_interval` (1 s), or the whole outage; with a `spool`, the hits of the last 100 ms | the ledger starts from zero with the next process |
//! | the process is shut down | pending hits are sent for up to `shutdown_timeout` (10 s) | [`Unflushed`](crate::ErrorKind::Unflushed) with the number of remaining hits |
//!
//! ## Memory during an outage
//!
//! Waiting hits don't need memory individually, because they are stored as counts per counter and bucket
//! start. When a bucket leaves the retention of a fine precision, its count is merged into the coarser
//! buckets. Hits that have left the retention of all precisions are
//! [`expired`](crate::visits::Hits::expired): they only count in the lifetime of the counter, as a single
//! number. Thus the number of counts per counter is limited to about two per retained sample, i.e. 2 × 7 ×
//! 120 by default. A count needs about 64 bytes:
//!
//! | outage | counts of a counter with hits in every second | memory | for 2,000 counters |
//! |---|---|---|---|
//! | 2 minutes | 120 | 8 KB | 16 MB |
//! | 10 minutes | 120 + 480 s / 5 s = 216 | 14 KB | 28 MB |
//! | a day | about 440 | 28 KB | 56 MB |
//! | no limit | up to 1,680 | up to 108 KB | up to 216 MB |
//!
//! In addition, there can be counts that are not folded yet: up to the same number as above, or up to 4,096
//! for a shard and thread. A visitor needs about ten bytes in the open visitor bucket of a counter, up to 16
//! KB for a bucket, even without an outage. The default visitor buckets, an hour and a day, share this
//! memory. During an outage, any waiting hour needs up to the same amount.
//! [`Health::pending_cells`](crate::Health::pending_cells) returns the total number.
//!
//! ## Timeouts and intervals
//!
//! | operation | time |
//! |---|---|
//! | a call, from the command to the reply | up to 5 s |
//! | time without data until a connection is considered dead | 3 s, checked every half second |
//! | resolving the server name | up to 5 s; a slower lookup will be reused by the next attempt |
//! | connecting to an address, including TLS | up to 5 s; the next address of the name is tried after 250 ms |
//! | the connection handshake: `AUTH`, `PING`, `SELECT`, `CLIENT ID`, `INFO` | up to 10 s, so that a round trip may take two seconds |
//! | waiting for the transaction connection if scripts are not allowed | up to 5 s |
//! | delay between connection attempts | 50 ms, doubled up to 2 s |
//! | delay between flush attempts | 50 ms, doubled up to 2 s, and randomly reduced by up to a half |
