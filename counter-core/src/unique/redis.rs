mod without_scripts;
mod pages;

use std::collections::HashSet;
use std::sync::Arc;

use fred::bytes::Bytes;
use fred::types::{FromValue, Value};

use super::distinct::{Contents, Distinct};
use super::store::{Included, UniqueKey, UniqueKind, UniqueList, UniquePart, UniqueStore};
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::redis::{
    Call, Client, Connection, Script, convert_reply, error_message, is_transient, unavailable,
    was_not_executed, with_retries,
};
use crate::sketch::Sketch;

/// Number of registers to raise per call, which takes the server up to 5 ms while the registers are sparse.
const REGISTERS_PER_CALL: usize = 1000;

/// `COUNT` argument for scans of keys and set items.
const SCAN_COUNT: &str = "1000";

/// Maximum number of attempts to read a set. If the connection is replaced between two pages, the cursor is
/// invalid, so the read has to start from the beginning.
const MAX_READ_ATTEMPTS: u32 = 3;

/// The unique counters of a `RedisStore`: the sets and HyperLogLogs in a namespace.
#[derive(Debug)]
pub(crate) struct RedisUnique {
    client: Arc<Client>,
    include: Script,
}

impl UniqueStore for RedisUnique {
    fn include<'a>(&'a self, counter: &'a UniqueKey, items: &'a [Vec<u8>]) -> StoreFuture<'a, Included> {
        Box::pin(async move {
            let key = self.unique(counter);
            let max = match counter.kind {
                UniqueKind::Set => {
                    let add = || self.on_items("SADD", &key, items);
                    let new =
                        with_retries(was_not_executed, add).await.map_err(|error| of_key(error, &key))?;
                    return Ok(Included { new, exact: true });
                }
                UniqueKind::Sketch => None,
                UniqueKind::Adaptive(threshold) => Some(threshold.items()),
            };
            let include = || self.include(counter, &key, max, items);
            with_retries(was_not_executed, include).await.map_err(|error| of_key(error, &key))
        })
    }

    fn exclude<'a>(&'a self, set: &'a CounterName, items: &'a [Vec<u8>]) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let key = self.unique(&UniqueKey { name: set.clone(), kind: UniqueKind::Set });
            let remove = || self.on_items("SREM", &key, items);
            with_retries(was_not_executed, remove).await.map_err(|error| of_key(error, &key))
        })
    }

    fn distinct<'a>(&'a self, counter: &'a UniqueKey) -> StoreFuture<'a, Distinct> {
        Box::pin(async move {
            let key = self.unique(counter);
            let key = &key;
            let count = |command| with_retries(is_transient, move || self.on_key::<u64>(command, key));
            let reply = match counter.kind {
                UniqueKind::Set => count("SCARD").await.map(Distinct::Exact),
                UniqueKind::Sketch => count("PFCOUNT").await.map(Distinct::estimated),
                UniqueKind::Adaptive(_) => match count("SCARD").await {
                    Err(error) if is_wrong_type(&error) => count("PFCOUNT").await.map(Distinct::estimated),
                    items => items.map(Distinct::Exact),
                },
            };
            reply.map_err(|error| of_key(error, key))
        })
    }

    fn contents<'a>(&'a self, counter: &'a UniqueKey, max: usize) -> StoreFuture<'a, Contents> {
        Box::pin(async move {
            let key = self.unique(counter);
            let reply = match counter.kind {
                UniqueKind::Set => self.items(&key, max).await,
                UniqueKind::Sketch => self.registers(&key).await,
                UniqueKind::Adaptive(_) => match self.items(&key, max).await {
                    Err(error) if is_wrong_type(&error) => self.registers(&key).await,
                    items => items,
                },
            };
            reply.map_err(|error| of_key(error, &key))
        })
    }

    fn list(&self, cursor: Option<Vec<u8>>) -> StoreFuture<'_, UniqueList> {
        Box::pin(pages::list(self, cursor))
    }

    fn part<'a>(&'a self, counter: &'a UniqueKey, cursor: Option<Vec<u8>>) -> StoreFuture<'a, UniquePart> {
        Box::pin(pages::part(self, counter, cursor))
    }

    fn merge_registers<'a>(&'a self, counter: &'a UniqueKey, sketch: &'a Sketch) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let key = self.unique(counter);
            let max = match counter.kind {
                UniqueKind::Set => {
                    return Err(Error::new(ErrorKind::Rejected).caused_by("a set doesn't have registers"));
                }
                UniqueKind::Sketch => None,
                UniqueKind::Adaptive(_) => Some(0),
            };
            let elements: Vec<_> = sketch.registers().map(|register| register.element().to_vec()).collect();
            for elements in elements.chunks(REGISTERS_PER_CALL) {
                let include = || self.include(counter, &key, max, elements);
                with_retries(is_transient, include).await.map_err(|error| of_key(error, &key))?;
            }
            Ok(())
        })
    }

    fn remove<'a>(&'a self, counter: &'a UniqueKey) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let key = self.unique(counter);
            let _: u64 = with_retries(is_transient, || self.on_key("DEL", &key)).await?;
            Ok(())
        })
    }
}

impl RedisUnique {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self { client, include: Script::new(include_str!("redis/include.lua")) }
    }

    /// Returns the key of a counter, which holds a set or a HyperLogLog.
    fn unique(&self, counter: &UniqueKey) -> String {
        format!("{}{counter}", self.client.prefix_of(&counter.name))
    }

    async fn on_key<R: FromValue>(&self, command: &'static str, key: &str) -> Result<R, Error> {
        self.client.call(command, key, vec![key.into()]).await
    }

    async fn on_items(&self, command: &'static str, key: &str, items: &[Vec<u8>]) -> Result<u64, Error> {
        self.client.call(command, key, with_items(key, items)).await
    }

    /// Adds items to a counter with registers, or converts a set into registers if it exceeds `max` items.
    async fn include(
        &self,
        counter: &UniqueKey,
        key: &str,
        max: Option<u16>,
        items: &[Vec<u8>],
    ) -> Result<Included, Error> {
        let scratch = &self.client.prefix_of(&counter.name).scratch;
        let by_script = async {
            let mut call = Call::new([key]);
            if max.is_some() {
                call.key(scratch);
            }
            call.push(max.map_or_else(String::new, |max| max.to_string()));
            for item in items {
                call.push(Bytes::copy_from_slice(item));
            }
            let (new, exact): (u64, u64) = self.client.run(&self.include, call).await?;
            Ok(Included { new, exact: exact == 1 })
        };
        let without_scripts = without_scripts::include(&self.client, key, max, items);
        self.client.scripted(by_script, without_scripts).await
    }

    async fn items(&self, key: &str, max: usize) -> Result<Contents, Error> {
        let mut attempts = 1;
        loop {
            match self.read_set(key, max).await {
                Err(error) if attempts < MAX_READ_ATTEMPTS && is_transient(&error) => attempts += 1,
                items => return items.map(Contents::Items),
            }
        }
    }

    /// Reads a set page by page over a single connection.
    async fn read_set(&self, key: &str, max: usize) -> Result<HashSet<Vec<u8>>, Error> {
        let begin = async || {
            let server = self.client.connection(key).await?;
            let made = server.connections();
            let first = self.page(&server, made, key, "0").await?;
            Ok((server, made, first))
        };
        let (server, made, (mut cursor, mut page)) = with_retries(is_transient, begin).await?;
        let mut items = HashSet::new();
        loop {
            items.extend(page.into_iter().map(Vec::from));
            if items.len() > max {
                return Err(Error::new(ErrorKind::TooManyItems { max: max as u64 }));
            }
            if cursor == "0" {
                return Ok(items);
            }
            (cursor, page) = self.page(&server, made, key, &cursor).await?;
        }
    }

    /// Reads a page of items from a cursor. Cursors are only valid within the same server process, and a
    /// reconnect can lead to a different server. Therefore this fails if the connection is not connection
    /// number `made` any more.
    async fn page(
        &self,
        server: &Connection,
        made: u64,
        key: &str,
        cursor: &str,
    ) -> Result<(String, Vec<Bytes>), Error> {
        let args = [key, cursor, "COUNT", SCAN_COUNT].map(Value::from).to_vec();
        let page = convert_reply(self.client.learn(server.call("SSCAN", key, args).await))?;
        if server.connections() == made {
            return Ok(page);
        }
        Err(unavailable("the connection was replaced while the set was read"))
    }

    async fn registers(&self, key: &str) -> Result<Contents, Error> {
        let value: Option<Bytes> = with_retries(is_transient, || self.on_key("GET", key)).await?;
        value.map_or_else(|| Ok(Sketch::new()), |value| sketch(&value, key)).map(Contents::Registers)
    }
}

fn with_items(key: &str, items: &[Vec<u8>]) -> Vec<Value> {
    let items = items.iter().map(|item| Value::from(Bytes::copy_from_slice(item)));
    [Value::from(key)].into_iter().chain(items).collect()
}

fn sketch(value: &[u8], key: &str) -> Result<Sketch, Error> {
    Sketch::from_redis(value).map_err(|error| malformed(key).caused_by(error))
}

fn malformed(key: &str) -> Error {
    Error::new(ErrorKind::Malformed { key: key.to_owned() })
}

/// Returns `true` if the key holds a value of the wrong type. Within a script, the error code of the command
/// can be preceded by other text.
fn is_wrong_type(error: &Error) -> bool {
    error_message(error).is_some_and(|reply| reply.contains("WRONGTYPE") || reply.contains("INVALIDOBJ"))
}

/// Replaces a type error with an error that names the key.
fn of_key(error: Error, key: &str) -> Error {
    if is_wrong_type(&error) { malformed(key).caused_by(error) } else { error }
}
