//! Writing rows: partition after partition side by side, and a partition's batches one after the
//! other, so that what overflows is evicted before more comes.

use futures_util::{StreamExt, stream};
use redis::{Cmd, Value};
use terrace_tiers::TierError;

use super::eviction::relieve;
use super::key_groups::{Keep, KeyGroups};
use super::redis_table::{Field, RedisTable};
use super::table_call::{CallTime, TableCall};

/// Which rows are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    All,
    /// Those of keys that are not there.
    Absent,
}

/// Partitions with a command under way.
const PARTITIONS_AT_ONCE: usize = 32;

/// Rows to write · rows: `[keys, dim]`
pub(super) struct RowWrite<'a> {
    pub(super) keys: &'a [i64],
    pub(super) rows: &'a [f32],
    pub(super) how: Write,
}

impl RowWrite<'_> {
    pub(super) async fn run(&self, table: &RedisTable) -> Result<(), TierError> {
        let keep = match self.how {
            Write::All => Keep::Last,
            Write::Absent => Keep::First,
        };
        let partitions = table.partitions.len();
        let groups =
            KeyGroups::new(self.keys, |_| true, keep, partitions, |key| table.partition_of(key));
        if groups.is_empty() {
            return Ok(());
        }
        let call = TableCall::begin(table, CallTime::WhileAnswersCome).await?;
        let write = async |(partition, indices): (u32, &[u32])| {
            if let Err(error) = self.write_partition(&call, partition, indices).await {
                call.failed(error);
            }
        };
        stream::iter(groups.partitions()).for_each_concurrent(PARTITIONS_AT_ONCE, write).await;
        call.end()
    }

    async fn write_partition(
        &self,
        call: &TableCall<'_>,
        partition: u32,
        indices: &[u32],
    ) -> Result<(), TierError> {
        let table = call.table;
        for indices in indices.chunks(table.write_rows) {
            let used: Vec<(Field, u32)> =
                indices.iter().map(|index| (table.field(self.keys[*index as usize]), 1)).collect();
            let count = match self.how {
                Write::All => self.put(call, partition, indices, &used).await?,
                Write::Absent => self.add(call, partition, indices, used).await?,
            };
            if count.is_some_and(|count| count > table.overflow.margin) {
                relieve(call, partition).await?;
            }
        }
        Ok(())
    }

    /// How many rows the partition has afterwards, where that matters.
    async fn put(
        &self,
        call: &TableCall<'_>,
        partition: u32,
        indices: &[u32],
        used: &[(Field, u32)],
    ) -> Result<Option<u64>, TierError> {
        let table = call.table;
        let hash = &table.partition(partition).rows;
        let row_bytes = table.spec.row_bytes() + table.spec.key_kind.bytes();
        let mut set = Cmd::with_capacity(2 * indices.len() + 2, indices.len() * row_bytes + 128);
        set.arg("HSET").arg(&hash.name);
        let mut bytes = table.row_buffer();
        for (index, (field, _)) in indices.iter().zip(used) {
            self.encode(table, *index, &mut bytes);
            set.arg(field.as_ref()).arg(&bytes);
        }
        let mut commands = vec![set];
        commands.extend(table.is_bounded().then(|| hash.count_command()));
        let answers = call.run_and_mark(partition, commands, used).await?;
        answers.get(1).map(|count| table.read_count(count)).transpose()
    }

    async fn add(
        &self,
        call: &TableCall<'_>,
        partition: u32,
        indices: &[u32],
        mut used: Vec<(Field, u32)>,
    ) -> Result<Option<u64>, TierError> {
        let table = call.table;
        let hash = &table.partition(partition).rows;
        let mut bytes = table.row_buffer();
        let set = |(index, (field, _)): (&u32, &(Field, u32))| {
            self.encode(table, *index, &mut bytes);
            let mut set = Cmd::with_capacity(4, bytes.len() + hash.name.len() + 16);
            set.arg("HSETNX").arg(&hash.name).arg(field.as_ref()).arg(&bytes);
            set
        };
        let mut commands: Vec<Cmd> = indices.iter().zip(&used).map(set).collect();
        commands.extend(table.is_bounded().then(|| hash.count_command()));
        let answers = call.run_all(partition, commands, Vec::new()).await?.rows;
        let (added, count) = answers.split_at(indices.len());
        let mut was_added = added.iter().map(|answer| *answer == Value::Int(1));
        used.retain(|_| was_added.next().unwrap_or(false));
        call.run_and_mark(partition, Vec::new(), &used).await?;
        count.first().map(|count| table.read_count(count)).transpose()
    }

    fn encode(&self, table: &RedisTable, index: u32, bytes: &mut Vec<u8>) {
        let dim = table.spec.dim;
        bytes.clear();
        let row = &self.rows[index as usize * dim..][..dim];
        bytes.extend(row.iter().flat_map(|number| number.to_le_bytes()));
    }
}
