//! A table's rows in Redis.
//!
//! A look-up asks all partitions at once, in commands of bounded size: those for one node are
//! pipelined, and nodes answer in parallel. It takes the time limit at most; what came until then
//! is there. A write takes as long as answers come, each within the time limit.
//!
//! Each command is about one partition and is carried out whole. A call that fails may have written
//! some of its rows.
//!
//! Calls block, and may not be made from a thread that runs async tasks.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use terrace_tiers::TierError;

use super::hash_page::{Cursor, HashPage};
use super::key_groups::{Keep, KeyGroups};
use super::redis_table::{Hash, RedisTable};
use super::row_write::{RowWrite, Write};
use super::table_call::{CallTime, TableCall};
use super::use_marks::UseMarks;
use super::use_queue::{UseQueue, UsedKeys};
use crate::row_store::{RowStore, ScannedRows};

pub struct RedisStore {
    pub(super) table: Arc<RedisTable>,
    /// Where rows are evicted by use.
    uses: Option<UseQueue>,
}

/// Commands under way of one call: with answers of 1 MiB at most, memory is bounded.
pub(super) const UNDER_WAY: usize = 32;

impl RedisStore {
    pub(super) fn new(table: RedisTable) -> Self {
        let table = Arc::new(table);
        let uses = (table.marks != UseMarks::None).then(|| UseQueue::start(&table));
        RedisStore { table, uses }
    }

    /// Look-ups of rows that were not marked as used: too many came at once, or a server refused.
    pub fn lost_uses(&self) -> u64 {
        self.uses.as_ref().map_or(0, UseQueue::lost)
    }

    fn groups(&self, keys: &[i64], takes: impl Fn(usize) -> bool, keep: Keep) -> KeyGroups {
        let table = &self.table;
        let takes = |index: usize| takes(index) && table.fits(keys[index]);
        KeyGroups::new(keys, takes, keep, table.partitions.len(), |key| table.partition_of(key))
    }

    fn write(&self, keys: &[i64], rows: &[f32], how: Write) -> Result<(), TierError> {
        let spec = &self.table.spec;
        assert_eq!(rows.len(), keys.len() * spec.dim, "rows of a write");
        spec.key_kind.check(keys).map_err(|error| {
            TierError::Protocol(format!("redis: {} cannot hold a key: {error}", spec.tag))
        })?;
        let write = RowWrite { keys, rows, how };
        self.table.session.block_on(write.run(&self.table))
    }

    async fn look_up(
        &self,
        groups: &KeyGroups,
        keys: &[i64],
        rows: &mut [f32],
        found: &mut [bool],
    ) -> Result<(), TierError> {
        let table = &*self.table;
        let call = TableCall::begin(table, CallTime::InAll).await?;
        let ask = |(partition, indices)| {
            let get = table.hmget(partition, keys, indices);
            let answer = call.run(&table.partition(partition).rows, get);
            async move { (indices, answer.await) }
        };
        let batches = stream::iter(groups.batches(table.read_rows));
        let mut answers = std::pin::pin!(batches.map(ask).buffer_unordered(UNDER_WAY));
        while let Some((indices, answer)) = answers.next().await {
            let taken =
                answer.and_then(|answer| table.take_rows(answer, keys, indices, rows, found));
            if let Err(error) = taken {
                call.failed(error);
            }
        }
        call.end()
    }

    /// One command for each partition's rows, all at once.
    async fn ask_all(&self) -> Result<u64, TierError> {
        let table = &*self.table;
        let call = TableCall::begin(table, CallTime::InAll).await?;
        let ask = async |hash: &Hash| call.run(hash, hash.count_command()).await;
        let hashes = stream::iter(table.partitions.iter().map(|partition| &partition.rows));
        let mut answers = std::pin::pin!(hashes.map(ask).buffer_unordered(UNDER_WAY));
        let mut count = 0;
        while let Some(answer) = answers.next().await {
            match answer.and_then(|answer| table.read_count(&answer)) {
                Ok(rows) => count += rows,
                Err(error) => call.failed(error),
            }
        }
        call.end().map(|()| count)
    }

    async fn page(&self, hash: &Hash, from: Cursor, rows: usize) -> Result<HashPage, TierError> {
        let call = TableCall::begin(&self.table, CallTime::InAll).await?;
        let answer = call.run(hash, from.command(hash, rows)).await;
        match answer {
            Ok(answer) => HashPage::read(&self.table, answer),
            Err(error) => {
                call.failed(error.clone());
                call.end().and(Err(error))
            }
        }
    }

    /// The keys and rows of a page that were not seen before.
    fn read_page(
        &self,
        page: &HashPage,
        hash: &Hash,
        seen: &mut HashSet<i64>,
    ) -> Result<(Vec<i64>, Vec<f32>), TierError> {
        let dim = self.table.spec.dim;
        let (mut keys, mut rows) = (Vec::new(), Vec::with_capacity(page.entries.len() * dim));
        for (field, value) in &page.entries {
            let key = self.table.key(field).ok_or_else(|| self.no_key(field, hash))?;
            if seen.insert(key) {
                let start = rows.len();
                rows.resize(start + dim, 0.0);
                self.table.read_row(key, value, &mut rows[start..])?;
                keys.push(key);
            }
        }
        Ok((keys, rows))
    }

    fn no_key(&self, field: &[u8], hash: &Hash) -> TierError {
        TierError::Protocol(format!(
            "redis: {} has a field of {} bytes, and its keys have {}; check supportlonglong",
            hash.name,
            field.len(),
            self.table.spec.key_kind.bytes()
        ))
    }
}

impl RowStore for RedisStore {
    fn name(&self) -> &str {
        "redis"
    }

    fn get_many(
        &self,
        keys: &[i64],
        rows: &mut [f32],
        found: &mut [bool],
    ) -> Result<(), TierError> {
        let dim = self.table.spec.dim;
        assert_eq!((rows.len(), found.len()), (keys.len() * dim, keys.len()), "rows of a look-up");
        let groups = self.groups(keys, |index| !found[index], Keep::First);
        if groups.is_empty() {
            return Ok(());
        }
        let looked_up = self.table.session.block_on(self.look_up(&groups, keys, rows, found));
        for (index, chosen) in groups.repeats() {
            if found[chosen] {
                rows.copy_within(chosen * dim..(chosen + 1) * dim, index * dim);
                found[index] = true;
            }
        }
        if let Some(uses) = &self.uses {
            uses.add(used(&groups, keys, found));
        }
        looked_up
    }

    fn put_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.write(keys, rows, Write::All)
    }

    fn add_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.write(keys, rows, Write::Absent)
    }

    fn remove_many(&self, keys: &[i64]) -> Result<(), TierError> {
        let groups = self.groups(keys, |_| true, Keep::First);
        if groups.is_empty() {
            return Ok(());
        }
        let table = &*self.table;
        table.session.block_on(async {
            let call = TableCall::begin(table, CallTime::WhileAnswersCome).await?;
            let remove = async |(partition, indices): (u32, &[u32])| {
                let fields: Vec<_> =
                    indices.iter().map(|index| table.field(keys[*index as usize])).collect();
                let [rows, marks] = table.remove_commands(partition, &fields);
                if let Err(error) = call.run_all(partition, vec![rows], vec![marks]).await {
                    call.failed(error);
                }
            };
            let batches = stream::iter(groups.batches(table.fields));
            batches.for_each_concurrent(UNDER_WAY, remove).await;
            call.end()
        })
    }

    fn count(&self) -> Result<u64, TierError> {
        self.table.session.block_on(self.ask_all())
    }

    /// Remembers the keys of one partition at a time: about 16 bytes for each.
    fn scan(&self, batch_rows: usize, each: &mut ScannedRows<'_>) -> Result<(), TierError> {
        let (batch_rows, dim) = (batch_rows.max(1), self.table.spec.dim);
        let rows_of_page = batch_rows.min(self.table.read_rows);
        for hash in self.table.partitions.iter().map(|partition| &partition.rows) {
            let (mut seen, mut cursor) = (HashSet::new(), Some(Cursor::first()));
            while let Some(from) = cursor {
                // Not while the page is given away: that may be another call to Redis.
                let page = self.table.session.block_on(self.page(hash, from, rows_of_page))?;
                let (keys, rows) = self.read_page(&page, hash, &mut seen)?;
                for (keys, rows) in keys.chunks(batch_rows).zip(rows.chunks(batch_rows * dim)) {
                    each(keys, rows)?;
                }
                cursor = page.next;
            }
        }
        Ok(())
    }
}

/// The keys that were asked for and found.
fn used(groups: &KeyGroups, keys: &[i64], found: &[bool]) -> UsedKeys {
    let of = |(partition, indices): (u32, &[u32])| {
        let found = indices.iter().map(|index| *index as usize).filter(|index| found[*index]);
        (partition, found.map(|index| keys[index]).collect())
    };
    groups.partitions().map(of).filter(|(_, keys): &(u32, Vec<i64>)| !keys.is_empty()).collect()
}
