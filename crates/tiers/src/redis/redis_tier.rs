//! Page records in a Redis Cluster, or in one Redis, shared by all servers that name it.
//!
//! The key of a record is the prefix and its content key in hex, its value the record. Redis
//! decides who leaves, by its own policy; a time to live bounds how long a record stays. The
//! priority of a record means nothing to it.
//!
//! Connecting is part of the first call, and of the first after a failure, so that a server that is
//! down delays nobody's start. A call whose servers give no answer for the configured time ends;
//! after the first error the rest of a call has that time once more. Each command is about one key,
//! because a cluster's keys lie anywhere; many are under way at once, up to a bound in bytes.
//!
//! Calls block, and may not be made from a thread that runs async tasks.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use redis::{Cmd, ConnectionInfo, RedisResult, Value};
use terrace_cache::PageKey;
use tokio::runtime::Runtime;
use tokio::time::{Instant, timeout_at};

use super::redis_fault::redis_fault;
use super::redis_link::{RedisLink, parse_node};
use crate::page_tier::{FoundRecord, PageTier, Stored, TierRecord, TierUsage};
use crate::tier_error::TierError;

/// Of commands without a record. Their bytes do not matter, the bound is one of work.
const SMALL_COMMANDS: usize = 256;
/// Looks at all keys until nothing is found.
const SCANS_MOST: usize = 8;

#[derive(Clone, Debug)]
pub struct RedisTierConfig {
    /// One or more nodes of a cluster, which name the others, or one server: `host:port` or
    /// `redis://user:password@host:port`.
    pub nodes: Vec<String>,
    /// Before each key.
    pub key_prefix: String,
    /// Without an answer for so long, a call ends.
    pub timeout: Duration,
    /// The longest that a record stays; `None` leaves it to Redis.
    pub ttl: Option<Duration>,
    /// Of every record, header included.
    pub record_bytes: usize,
    /// Of records under way in one call.
    pub in_flight_bytes: usize,
}

impl RedisTierConfig {
    pub fn new(nodes: Vec<String>, record_bytes: usize) -> Self {
        RedisTierConfig {
            nodes,
            key_prefix: "terrace:page:".into(),
            timeout: Duration::from_millis(500),
            ttl: Some(Duration::from_secs(24 * 60 * 60)),
            record_bytes,
            in_flight_bytes: 32 << 20,
        }
    }
}

pub struct RedisTier {
    config: RedisTierConfig,
    nodes: Vec<ConnectionInfo>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    link: Mutex<CachedLink>,
}

/// The link of the calls to come. A call that fails takes it away, so that the next one finds out
/// anew who is there, and what was sent on it and not answered is dropped.
#[derive(Default)]
struct CachedLink {
    link: Option<RedisLink>,
    /// Counts links, so that a late failure does not take away the next one.
    number: u64,
}

impl RedisTier {
    /// Reads the configuration. The first call connects.
    pub fn connect(config: RedisTierConfig) -> Result<Self, TierError> {
        let nodes: Vec<_> =
            config.nodes.iter().map(|node| parse_node(node)).collect::<Result<_, _>>()?;
        if nodes.is_empty() {
            return Err(TierError::Unavailable("redis: no node is named; name one".into()));
        }
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).thread_name("redis-tier").enable_all().build();
        let runtime = runtime.map_err(|error| {
            TierError::Unavailable(format!("redis: cannot start its threads: {error}"))
        })?;
        Ok(RedisTier { config, nodes, runtime: Some(runtime), link: Mutex::default() })
    }

    fn redis_key(&self, key: &PageKey) -> String {
        self.key_text(key.as_bytes())
    }

    /// A key, or what several begin with.
    fn key_text(&self, bytes: &[u8]) -> String {
        let mut text = self.config.key_prefix.clone();
        for byte in bytes {
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }

    /// Every key on every node that begins so.
    fn keys_with(&self, prefix: &[u8]) -> Result<Vec<String>, TierError> {
        let pattern = format!("{}*", self.key_text(prefix));
        let runtime = self.runtime.as_ref().expect("there until it is dropped");
        runtime.block_on(async {
            let (link, number) = self.link().await?;
            let found = link.scan(&pattern, self.config.timeout).await;
            if let Err(TierError::TimedOut(_) | TierError::Unavailable(_)) = &found {
                self.drop_link(number);
            }
            found
        })
    }

    fn records_in_flight(&self) -> usize {
        (self.config.in_flight_bytes / self.config.record_bytes.max(1)).clamp(1, SMALL_COMMANDS)
    }

    /// Runs a command for each of `count` items, and calls `answered` with what came back. The
    /// first error is the call's; answers after it still count.
    fn for_each(
        &self,
        count: usize,
        in_flight: usize,
        command: impl Fn(usize) -> Cmd,
        mut answered: impl FnMut(usize, Value),
    ) -> Result<(), TierError> {
        if count == 0 {
            return Ok(());
        }
        let runtime = self.runtime.as_ref().expect("there until it is dropped");
        runtime.block_on(async {
            let (link, number) = self.link().await?;
            let run = async |index: usize| -> (usize, RedisResult<Value>) {
                (index, link.clone().run(&command(index)).await)
            };
            let mut answers =
                std::pin::pin!(stream::iter(0..count).map(run).buffer_unordered(in_flight));
            let mut first_error = None;
            let mut ends_at = None;
            loop {
                let patient_until = Instant::now() + self.config.timeout;
                let until = ends_at.map_or(patient_until, |end: Instant| end.min(patient_until));
                match timeout_at(until, answers.next()).await {
                    Ok(None) => break,
                    Ok(Some((index, Ok(value)))) => answered(index, value),
                    Ok(Some((_, Err(error)))) => {
                        ends_at = ends_at.or(Some(Instant::now() + self.config.timeout));
                        first_error = first_error.or(Some(redis_fault(&error)));
                    }
                    Err(_) => {
                        first_error = first_error.or(Some(self.timed_out("answer")));
                        break;
                    }
                }
            }
            let Some(error) = first_error else { return Ok(()) };
            if matches!(error, TierError::TimedOut(_) | TierError::Unavailable(_)) {
                self.drop_link(number);
            }
            Err(error)
        })
    }

    async fn link(&self) -> Result<(RedisLink, u64), TierError> {
        {
            let cached = self.link.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(link) = &cached.link {
                return Ok((link.clone(), cached.number));
            }
        }
        let connecting = RedisLink::connect(&self.nodes, self.config.timeout);
        let connected = tokio::time::timeout(self.config.timeout, connecting).await;
        let link = connected.map_err(|_| self.timed_out("connection"))??;
        let mut cached = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        cached.number += 1;
        cached.link = Some(link.clone());
        Ok((link, cached.number))
    }

    fn drop_link(&self, number: u64) {
        let mut cached = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.number == number {
            cached.link = None;
        }
    }

    fn timed_out(&self, what: &str) -> TierError {
        TierError::TimedOut(format!(
            "redis: no {what} within {} ms; check network and load, or give it more time",
            self.config.timeout.as_millis()
        ))
    }
}

impl PageTier for RedisTier {
    fn name(&self) -> &str {
        "redis"
    }

    fn listed(&self) -> Option<Vec<PageKey>> {
        None
    }

    fn contains_many(&self, keys: &[PageKey]) -> Result<Vec<bool>, TierError> {
        let mut contained = vec![false; keys.len()];
        let exists = |index: usize| command("EXISTS", &self.redis_key(&keys[index]));
        self.for_each(keys.len(), SMALL_COMMANDS, exists, |index, value| {
            contained[index] = value == Value::Int(1);
        })?;
        Ok(contained)
    }

    fn get_many(&self, keys: &[PageKey], found: &mut FoundRecord<'_>) -> Result<(), TierError> {
        let get = |index: usize| command("GET", &self.redis_key(&keys[index]));
        self.for_each(keys.len(), self.records_in_flight(), get, |index, value| {
            if let Value::BulkString(record) = value {
                found(index, &record);
            }
        })
    }

    fn put_many(&self, records: &[TierRecord<'_>]) -> Result<Stored, TierError> {
        let mut kept = vec![false; records.len()];
        let set = |index: usize| {
            let TierRecord { key, bytes, retention } = &records[index];
            let mut set = command("SET", &self.redis_key(key));
            set.arg(*bytes);
            let longest_ms = self.config.ttl.map(|ttl| ttl.as_millis() as u64);
            if let Some(ttl_ms) = [longest_ms, retention.ttl_ms].into_iter().flatten().min() {
                set.arg("PX").arg(ttl_ms.max(1));
            }
            set
        };
        self.for_each(records.len(), self.records_in_flight(), set, |index, value| {
            kept[index] = value == Value::Okay;
        })?;
        Ok(Stored { kept, evicted: Vec::new() })
    }

    fn remove_many(&self, keys: &[PageKey]) -> Result<(), TierError> {
        let unlink = |index: usize| command("UNLINK", &self.redis_key(&keys[index]));
        self.for_each(keys.len(), SMALL_COMMANDS, unlink, |_, _| {})
    }

    /// Looks again until nothing is found: a key may move between nodes while they are looked
    /// through.
    fn remove_prefix(&self, prefix: &[u8]) -> Result<usize, TierError> {
        let mut removed = 0;
        for _ in 0..SCANS_MOST {
            let keys = self.keys_with(prefix)?;
            if keys.is_empty() {
                return Ok(removed);
            }
            let unlink = |index: usize| command("UNLINK", &keys[index]);
            self.for_each(keys.len(), SMALL_COMMANDS, unlink, |_, value| {
                removed += usize::from(value == Value::Int(1));
            })?;
        }
        Err(TierError::Protocol(format!(
            "redis: others keep writing keys that begin with {}; {removed} were removed, try again",
            self.key_text(prefix)
        )))
    }

    fn usage(&self) -> TierUsage {
        TierUsage::default()
    }
}

impl Drop for RedisTier {
    /// Without waiting for what is under way.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn command(name: &str, key: &str) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}
