//! Running on Redis or Valkey: rights, what is kept where, and what is seen when things go wrong.
//!
//! # Which server
//!
//! Use Redis from 6.2 on, or Valkey: one server, a master with replicas under Sentinel, or a cluster.
//! [`RedisBuilder`](crate::stores::RedisBuilder) documents how each is addressed.
//! [`RedisStore::server`](crate::RedisStore::server) tells what a server can do, and which of its settings break a
//! promise. The log says the same at the start and, where a cleaner runs, after the settings have changed. The
//! `maxmemory-policy` should be `noeviction`; [below](#memory-and-eviction) is what each of the others costs.
//!
//! # Rights
//!
//! These are all the rights that are needed, for the namespace `access:` and the user `counter`:
//!
//! ```text
//! ACL SETUSER counter on >secret ~access:* ~{access:* -@all +eval +evalsha +get +set +mget +del +expireat +time +hincrby +hget +hset +hsetnx +hscan +hgetall +hmget +hlen +hkeys +hdel +zadd +zrem +zscore +zrangebyscore +zrangebylex +pfadd +pfcount +pfmerge
//! ```
//!
//! The second pattern is for shards. In a cluster `+cluster|slots` is needed as well. Where scripts are not allowed,
//! `+watch +unwatch +multi +exec +discard` take the place of the first two rights, with the same promises at a higher
//! cost. Where neither is allowed nothing is written, and [`last_error`](crate::Health::last_error) says so:
//!
//! ```text
//! ACL SETUSER plain on >secret ~access:* ~{access:* -@all +watch +unwatch +multi +exec +discard +get +set +mget +del +expireat +time +hincrby +hget +hset +hsetnx +hscan +hgetall +hmget +hkeys +hdel +zadd +zrem +zrangebyscore +zrangebylex +pfadd +pfcount +pfmerge
//! ```
//!
//! With `+info` as well, a server that lost all its data can be told from one that evicted keys, and only then are the
//! batches of the last minute sent to it again. Once a server has evicted anything since its start, the two cannot be
//! told apart any more, and the batches are not sent again.
//!
//! Without `+get`, `+set`, `+time`, `+hsetnx` or, for sources, `+hget` batches are refused, and hits wait. Any other right that is missing
//! inside of a script drops the hits of that key, with the reason `other` in the ledger and an error in the log.
//!
//! # The id and the grid of a namespace
//!
//! The key `document:store` of a namespace has its [id](crate::visits::StoreId) and the grid of its counters: precisions,
//! offsets and retention. The first process writes it. A server that loses all of its data loses the key as well, and the
//! next process writes another one; counting goes on meanwhile. Dumps, spools and archives compare the id, so that nothing
//! counts twice. Counters with another grid than the one that is kept report the hint `grid_differs`:
//! [`Builder::grid_of_store`](crate::Builder::grid_of_store) takes the one that is kept, and
//! [`Counters::change_grid`](crate::Counters::change_grid) replaces it.
//!
//! # Memory and eviction
//!
//! When a server with a bound on its memory (`maxmemory`) has used it up, it does what `maxmemory-policy` says. Any
//! policy but the first removes keys that were promised to stay:
//!
//! | policy | what is removed | what that costs |
//! |---|---|---|
//! | `noeviction`, the default | nothing: writes are refused (`OOM`) | hits wait in the processes and arrive when there is room again; limits do what they do while the store is away; nothing is lost |
//! | `volatile-lru`, `-lfu`, `-random`, `-ttl` | keys with an expiry: visitors, their salts, and windows | uniques are too low; without its salt an epoch's visitors count twice; a window begins again at 0, so a limit lets more pass than it says; counts, totals and sets of unique counters stay |
//! | `allkeys-…` | any keys | counts and totals become lower than what was acknowledged; a batch that was in flight when its fence was removed is dropped as in doubt; nothing counts twice, but for a [source](crate::source) that lost both keys of its position, whose log counts anew |
//!
//! `INFO memory` says whether `maxmemory` is near; [the guide to scale](crate::guide::scale) says how much a counter
//! takes.
//!
//! # Days of the site
//!
//! With [`Builder::utc_offset`](crate::Builder::utc_offset) a day begins at the site's midnight, and its keys say so:
//! `access:count:86400@82800:hits` has days that begin 82,800 s after midnight UTC, which are those of UTC+01:00. Summer
//! time is not followed. Give all instances over one store the same offset, or each counts only its own days. Changing
//! the offset begins the days anew; the earlier ones are cleaned when their retention is over. A program that knows
//! only the book's layout does not know such keys, and its cleaner may stop at them.
//!
//! # Another program of the book's layout
//!
//! With the empty [`Namespace`](crate::stores::Namespace) and without shards, the keys are those of *Redis in Action*
//! (section 5.2.1), and a program of that book may count beside this library. Its counters are listed, read and cleaned
//! like any others. They are in no lifetime total, since that layout has none, and what such a program counted while
//! nobody else looked is gone with its samples: a counter that it alone feeds has a total over each range and the
//! lifetime 0, which `/api/lifetimes` of an admin router shows as `null`.
//!
//! # TLS
//!
//! An address that begins with `rediss://` is enough where the system trusts the server's certificate; it needs the
//! feature `rustls` or `native-tls`. A certificate authority of your own, and a client certificate, are set in a
//! configuration of the client `fred`, which this crate exports with the feature `own-client`:
//!
//! ```no_run
//! # #[cfg(all(feature = "own-client", feature = "rustls"))]
//! # async fn connect() -> Result<counter_core::RedisStore, Box<dyn std::error::Error>> {
//! use counter_core::RedisStore;
//! use counter_core::stores::fred::prelude::{Config, TlsConnector};
//! use counter_core::stores::fred::rustls::pki_types::pem::PemObject;
//! use counter_core::stores::fred::rustls::pki_types::{CertificateDer, PrivateKeyDer};
//! use counter_core::stores::fred::rustls::{ClientConfig, RootCertStore};
//!
//! let mut roots = RootCertStore::empty();
//! for authority in CertificateDer::pem_file_iter("authority.pem")? {
//!     roots.add(authority?)?;
//! }
//! let chain = vec![CertificateDer::from_pem_file("client.pem")?];
//! let key = PrivateKeyDer::from_pem_file("client.key")?;
//! // Where the server wants no certificate: `with_no_client_auth()`.
//! let tls = ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key)?;
//!
//! let mut config = Config::from_url("rediss://redis.internal:6379")?;
//! config.tls = Some(TlsConnector::from(tls).into());
//! let store = RedisStore::builder().connect_with(config).await?;
//! # Ok(store)
//! # }
//! ```
//!
//! # Sentinel
//!
//! The address names the sentinels and the service:
//! `redis-sentinel://10.0.0.1:26379?sentinelServiceName=main&node=10.0.0.2:26379`. The sentinels are asked for the
//! master at each connection. Sentinels with a password of their own need the feature `sentinel-auth`. The setting
//! `min-replicas-to-write 1` keeps an isolated master from accepting what would be lost later; the hits wait
//! meanwhile.
//!
//! # A cluster, and shards
//!
//! In a cluster the counters are split over 16 hash tags, `{access:0}` to `{access:15}`, each of them in one slot;
//! [`RedisBuilder::shards`](crate::stores::RedisBuilder::shards) sets another number. All instances over one store, including
//! those that only read, must use the same number: a counter is looked for where that number puts it. So the number
//! cannot be changed once there are data.
//!
//! # A socket
//!
//! `redis+unix:///run/redis/redis.sock` needs the feature `unix-sockets`.
//!
//! # A client of your own
//!
//! A client that the application already has can be shared, with the feature `own-client`. It keeps its own settings for reconnecting, is not replaced
//! when its task ends, and in a cluster has to be set up as [`RedisBuilder::client`](crate::stores::RedisBuilder::client) says.
//!
//! ```no_run
//! # #[cfg(feature = "own-client")]
//! # async fn connect() -> Result<counter_core::RedisStore, Box<dyn std::error::Error>> {
//! use counter_core::RedisStore;
//! use counter_core::stores::fred::prelude::*;
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
//! Whatever happens to the server, requests are not affected: they count in memory. Hits wait there, each for its own
//! buckets, and arrive once, when the server accepts them. Meanwhile
//! [`Health::failing_for`](crate::Health::failing_for) says for how long, [`last_error`](crate::Health::last_error) why,
//! and [`Hits::pending`](crate::visits::Hits::pending) in the ledger how many hits wait. The log has one warning when it begins,
//! `the store does not accept batches`, and one line when it ends. Reading fails with
//! [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) or [`Refused`](crate::ErrorKind::Refused), which the admin
//! pages show as a 503.
//!
//! | what happens | what is done | what `last_error` says, and what else is seen |
//! |---|---|---|
//! | the server is away, at the start or later | the service starts and goes on; connecting goes on | `Connection refused`, at once |
//! | its name does not resolve | the same | `failed to lookup address information` |
//! | the password is wrong, at the start or after a rotation | the same; it is tried again, since it may become right | `WRONGPASS`; a rotation is noticed when the connection breaks, since the server keeps existing connections |
//! | its certificate is not trusted | the same; nothing is sent | what is wrong with the certificate |
//! | nothing answers: a black hole, a forgotten or half-open connection, a peer that does not read | after 3 s of silence the connection is closed and made again | `Unresponsive connection`, or a timeout; one more of `connections` |
//! | replies are slow, or `CLIENT PAUSE` | they are awaited, as long as there are less than 3 s of silence | nothing but more pending hits |
//! | the client's task ends, or 3 calls in a row have no answer | a new client takes its place | `the connection to the store is being replaced` in the log; one more of `connections` |
//! | `LOADING`: the server reads its data | batches are sent again | `LOADING` |
//! | `OOM`, `NOREPLICAS`, `MISCONF` when saving fails, `BUSY` with a long script | nothing was applied; batches are sent again | these words |
//! | `READONLY`: the master became a replica | the connection is made anew, and finds the new master by Sentinel or by name | `READONLY` |
//! | `SCRIPT FLUSH`, a restart | the script is sent whole, once | nothing |
//! | scripts are not allowed | transactions are used instead; a script is tried again each minute | a warning with the server's words; [`RedisServer::scripts`](crate::redis::RedisServer::scripts) is `false` |
//! | transactions are not allowed either | nothing is applied; batches are sent again | `neither scripts nor transactions (MULTI) are permitted`, and the same warning at the start |
//! | a failover loses what was acknowledged | the batches of the last minute, 16 MiB at most, are sent again | a warning with how many; older ones are [`lost_by_server`](crate::visits::Hits::lost_by_server) |
//! | the data set is lost or flushed, or a replica takes over that had nothing of this process yet | the same: the batches of the last minute are sent again, everything older is gone | the same |
//! | a node of a cluster is away | its shards wait, the others go on; reading its counters fails | the error of the shard that has failed for longest |
//! | a slot moves to another node | its shard waits until its keys are together again; until then reading it fails | `TRYAGAIN`, `ASK` or `MOVED`, for that time |
//! | a key holds something else (`WRONGTYPE`, not a number, overflow) | that bucket is left as it is, the other buckets have the hits; nothing is held up | [`dropped`](crate::visits::Hits::dropped) by reason, and one error in the log; `failing_for` stays `None` |
//! | keys are evicted | they are gone, and nothing counts twice: see [memory and eviction](#memory-and-eviction) | a warning at the start that names the policy |
//! | the fence of a process is gone, and its counts are not (evicted, deleted by hand, silent for 30 days) | the fence is created again after the last acknowledged batch, and nothing is sent again | a warning; the batch that was in flight is [`in_doubt`](crate::visits::Dropped::in_doubt) |
//! | the address leads to another server, and back again | each server gets the batches of the last minute that it lacks, under their old sequences, so none counts them twice; an idle process checks every 5 s | the hint `store_went_back`, and what is too old as `lost_by_server` |
//! | the clock of one machine is ahead | its cleaner goes by the server's clock; its hits count in the buckets of its own time, and those more than 25 hours ahead are [`dropped`](crate::visits::Dropped::ahead) | [`clock_skew`](crate::Health::clock_skew), and a warning beyond 5 s |
//! | something panics that the flusher or the cleaner calls: a store, a log, a metrics recorder | the panic is caught, and the batch is sent again | `a call panicked` |
//! | `run` is not polled, or its task has ended | hits wait | [`stalled_for`](crate::Health::stalled_for), and the health check fails |
//! | the clock steps back and forth | each hit counts in the buckets of the time that the clock showed, including those of the next 25 hours, which are cleaned when their own time is over | a gap and a bulge in the series |
//! | the process is killed | everything that the server has not acknowledged is lost: the hits of a second, `flush_interval`, or of the whole outage; with a `spool`, the hits of the last 100 ms | the ledger begins anew with the process |
//! | the process is told to stop | pending hits are sent for 10 s, `shutdown_timeout` | [`Unflushed`](crate::ErrorKind::Unflushed) with the number of hits that are left |
//!
//! ## How much memory an outage takes
//!
//! Waiting hits take no memory of their own: counts wait, one for each counter and start of a bucket. As a bucket leaves
//! the retention of a fine precision, its count moves into the coarser ones; hits that no precision keeps any more are
//! [`expired`](crate::visits::Hits::expired): one count for each counter, which only its lifetime gets. So a counter has at most about two counts for each sample that is kept, 2 × 7 × 120
//! by default, of about 64 bytes:
//!
//! | outage | counts of a counter with hits in every second | memory | of 2,000 counters |
//! |---|---|---|---|
//! | 2 minutes | 120 | 8 KB | 16 MB |
//! | 10 minutes | 120 + 480 s / 5 s = 216 | 14 KB | 28 MB |
//! | a day | about 440 | 28 KB | 56 MB |
//! | for ever | 1,680 at most | 108 KB at most | 216 MB at most |
//!
//! Counts that are not folded yet come on top: at most as many again as there are, or 4,096 for each shard and each
//! thread. With visitors, a counter has some ten bytes for each in the open visitor bucket (the two of the default, an hour
//! and a day, share one), 16 KB at most, whether there is an outage or not, and at most as much for each hour that waits.
//! [`Health::pending_cells`](crate::Health::pending_cells) counts all of them.
//!
//! ## How long things take
//!
//! | what | how long |
//! |---|---|
//! | a call, from the command to the answer | 5 s at most |
//! | silence after which a connection is considered dead | 3 s, checked every half second |
//! | looking up the name of the server | 5 s at most; a lookup that takes longer is waited for by the next attempt |
//! | connecting to an address, with TLS | 5 s at most; the next address of the name is tried after 250 ms |
//! | the handshake of a connection: `AUTH`, `PING`, `SELECT`, `CLIENT ID`, `INFO` | 10 s at most, so that a round trip may take two seconds |
//! | waiting for the connection of transactions, where scripts are not allowed | 5 s at most |
//! | between two attempts to connect | 50 ms, doubled up to 2 s |
//! | between two attempts to flush | 50 ms, doubled up to 2 s, each up to a half shorter at random |
