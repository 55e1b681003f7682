//! Running on Redis or Valkey: rights, what is kept where, and what is seen when things go wrong.
//!
//! # Which server
//!
//! Redis from 6.2 on, or Valkey; one server, a master with replicas under Sentinel, or a cluster. How
//! each is addressed is said at [`RedisBuilder`](crate::RedisBuilder), and
//! [`RedisStore::server`](crate::RedisStore::server) tells what a server can do. Eviction must not take
//! the fences: `maxmemory-policy` has to be `noeviction` or `volatile-ttl`.
//!
//! # Rights
//!
//! These are all that is needed, for the namespace `access:` and the user `counter`:
//!
//! ```text
//! ACL SETUSER counter on >secret ~access:* ~{access:* -@all +eval +evalsha +get +set +mget +del +expireat +hincrby +hgetall +hmget +hlen +hkeys +hdel +zadd +zrem +zscore +zrangebyscore +zrangebylex +pfadd +pfmerge
//! ```
//!
//! The second pattern is for shards. In a cluster `+cluster|slots` is needed as well, and where scripts
//! are not allowed, `+watch +unwatch +multi +exec` in the place of the first two, with the same promises
//! at a higher cost:
//!
//! ```text
//! ACL SETUSER plain on >secret ~access:* ~{access:* -@all +watch +unwatch +multi +exec +get +set +mget +del +expireat +hincrby +hgetall +hmget +hkeys +hdel +zadd +zrem +zrangebyscore +zrangebylex +pfadd +pfmerge
//! ```
//!
//! A right that is missing inside of a script drops the hits of that key, with the reason `other` in the
//! ledger and an error in the log.
