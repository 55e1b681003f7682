use std::fmt;

use fred::types::{FromValue, Value};
use fred::util::sha1_hash;

use super::connection::says;
use super::route::Route;
use crate::Error;

/// A Lua script, sent by its digest, and whole when the server does not know it (any more).
pub(super) struct Script {
    source: &'static str,
    digest: String,
}

/// What a script is called with. The first key decides on the server of a cluster.
#[derive(Debug)]
pub(super) struct Call {
    keys: Vec<String>,
    arguments: Vec<Value>,
}

impl Script {
    pub(super) fn new(source: &'static str) -> Self {
        Self { source, digest: sha1_hash(source) }
    }

    pub(super) async fn run<R: FromValue>(&self, route: &Route, call: Call) -> Result<R, Error> {
        let first = call.keys[0].clone();
        match route.call("EVALSHA", &first, call.words(&self.digest)).await {
            Err(error) if says(&error, "NOSCRIPT") => {
                route.call("EVAL", &first, call.words(self.source)).await
            }
            answer => answer,
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Call {
    pub(super) fn new<const N: usize>(keys: [&str; N]) -> Self {
        const { assert!(N > 0) };
        Self { keys: keys.map(str::to_owned).into(), arguments: Vec::new() }
    }

    /// One more key, of the same slot as the first.
    pub(super) fn key(&mut self, key: &str) {
        self.keys.push(key.to_owned());
    }

    pub(super) fn push(&mut self, argument: impl Into<Value>) {
        self.arguments.push(argument.into());
    }

    /// A whole number in decimal digits.
    pub(super) fn number(&mut self, number: impl Copy + ToString) {
        self.arguments.push(number.to_string().into());
    }

    fn words(&self, script: &str) -> Vec<Value> {
        let mut words = Vec::with_capacity(2 + self.keys.len() + self.arguments.len());
        words.push(script.into());
        words.push(self.keys.len().to_string().into());
        words.extend(self.keys.iter().map(Value::from));
        words.extend(self.arguments.iter().cloned());
        words
    }
}
