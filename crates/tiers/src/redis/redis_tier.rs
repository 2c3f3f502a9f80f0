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

use std::time::Duration;

use futures_util::{StreamExt, stream};
use redis::{Cmd, RedisResult, Value};
use terrace_cache::PageKey;
use tokio::time::{Instant, timeout_at};

use super::redis_fault::RedisAdvice;
use super::redis_link::RedisLink;
use super::redis_nodes::RedisNodes;
use super::redis_session::RedisSession;
use crate::page_tier::{FoundRecord, PageTier, Stored, TierRecord, TierUsage};
use crate::tier_error::TierError;

/// Of commands without a record. Their bytes do not matter, the bound is one of work.
const SMALL_COMMANDS: usize = 256;
/// Looks at all keys until nothing is found.
const SCANS_MOST: usize = 8;
const ADVICE: RedisAdvice = RedisAdvice {
    login: "name nodes as redis://user:password@host:port, of a user who may GET, SET, EXISTS, \
            UNLINK, INFO and CLUSTER SLOTS",
    certificate: "check what its port expects",
};

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
    session: RedisSession,
}

impl RedisTier {
    /// Reads the configuration. The first call connects.
    pub fn connect(config: RedisTierConfig) -> Result<Self, TierError> {
        let nodes = RedisNodes::parse(&config.nodes, ADVICE)?;
        let session = RedisSession::new(nodes, config.timeout, "redis-tier")?;
        Ok(RedisTier { config, session })
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
        self.session.block_on(async {
            let (link, number) = self.session.link().await?;
            let found = link.scan(&pattern, self.config.timeout, self.session.advice()).await;
            if let Err(TierError::TimedOut(_) | TierError::Unavailable(_)) = &found {
                self.session.drop_link(number);
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
        self.session.block_on(async {
            let (link, number) = self.session.link().await?;
            let run = async |index: usize| (index, run(&link, &command(index)).await);
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
                        first_error = first_error.or(Some(self.session.fault(&error, "redis")));
                    }
                    Err(_) => {
                        first_error =
                            first_error.or(Some(self.session.timed_out("redis", "answer")));
                        break;
                    }
                }
            }
            let Some(error) = first_error else { return Ok(()) };
            if matches!(error, TierError::TimedOut(_) | TierError::Unavailable(_)) {
                self.session.drop_link(number);
            }
            Err(error)
        })
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

/// What is under a key and is not a string is nothing of ours.
async fn run(link: &RedisLink, command: &Cmd) -> RedisResult<Value> {
    match link.run(command).await {
        Err(error) if error.code() == Some("WRONGTYPE") => Ok(Value::Nil),
        answer => answer,
    }
}

fn command(name: &str, key: &str) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}
