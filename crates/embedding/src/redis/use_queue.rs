//! Look-ups mark the rows that they found as used, beside themselves: nobody waits for it.
//!
//! What was used stands in a queue of bounded length, and a task of the table's session writes it,
//! what came meanwhile together. What does not fit, or what a server refuses, is not marked: a row
//! may be evicted somewhat too early then. A mark may come after its row was removed; such marks
//! leave when the partition overflows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures_util::{StreamExt, stream};
use terrace_tiers::TierError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::redis_table::{Field, RedisTable};
use super::table_call::{CallTime, TableCall};

/// Keys that were found, by partition.
pub(super) type UsedKeys = Vec<(u32, Vec<i64>)>;

pub(super) struct UseQueue {
    sender: UnboundedSender<UsedKeys>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    waiting: AtomicUsize,
    lost: AtomicU64,
}

/// Keys that wait.
const WAITING_MOST: usize = 1 << 18;
/// Keys that are written together.
const TOGETHER_MOST: usize = 1 << 16;
/// Partitions with a command under way.
const PARTITIONS_AT_ONCE: usize = 8;

impl UseQueue {
    /// Begins to write what comes, until the queue is dropped.
    pub(super) fn start(table: &Arc<RedisTable>) -> Self {
        let (sender, receiver) = unbounded_channel();
        let counters = Arc::new(Counters::default());
        let (own_table, own_counters) = (Arc::clone(table), Arc::clone(&counters));
        table.session.spawn(async move { write_all(&own_table, receiver, &own_counters).await });
        UseQueue { sender, counters }
    }

    pub(super) fn add(&self, used: UsedKeys) {
        let count = count(&used);
        if count == 0 {
            return;
        }
        let waiting = self.counters.waiting.fetch_add(count, Ordering::Relaxed);
        let is_full = waiting + count > WAITING_MOST;
        if is_full || self.sender.send(used).is_err() {
            self.counters.waiting.fetch_sub(count, Ordering::Relaxed);
            self.counters.lost.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    /// Uses that were not marked.
    pub(super) fn lost(&self) -> u64 {
        self.counters.lost.load(Ordering::Relaxed)
    }
}

async fn write_all(
    table: &RedisTable,
    mut receiver: UnboundedReceiver<UsedKeys>,
    counters: &Counters,
) {
    while let Some(first) = receiver.recv().await {
        let mut together: HashMap<u32, HashMap<i64, u32>> = HashMap::new();
        let (mut next, mut keys) = (Some(first), 0);
        while let Some(used) = next {
            keys += count(&used);
            for (partition, keys) in used {
                let uses = together.entry(partition).or_default();
                keys.into_iter().for_each(|key| *uses.entry(key).or_default() += 1);
            }
            next = (keys < TOGETHER_MOST).then(|| receiver.try_recv().ok()).flatten();
        }
        counters.waiting.fetch_sub(keys, Ordering::Relaxed);
        if write(table, together).await.is_err() {
            counters.lost.fetch_add(keys as u64, Ordering::Relaxed);
        }
    }
}

async fn write(
    table: &RedisTable,
    together: HashMap<u32, HashMap<i64, u32>>,
) -> Result<(), TierError> {
    let call = TableCall::begin(table, CallTime::WhileAnswersCome).await?;
    let call_ref = &call;
    let mark = |(partition, uses): (u32, HashMap<i64, u32>)| async move {
        let used: Vec<(Field, u32)> =
            uses.into_iter().map(|(key, uses)| (table.field(key), uses)).collect();
        for used in used.chunks(table.fields) {
            if let Err(error) = call_ref.run_and_mark(partition, Vec::new(), used).await {
                return call_ref.failed(error);
            }
        }
    };
    stream::iter(together).for_each_concurrent(PARTITIONS_AT_ONCE, mark).await;
    call.end()
}

fn count(used: &UsedKeys) -> usize {
    used.iter().map(|(_, keys)| keys.len()).sum()
}
