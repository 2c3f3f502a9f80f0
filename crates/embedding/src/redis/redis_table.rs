//! One table in Redis: the names of its hashes, the bytes of its keys and rows, and its limits.
//!
//! A partition is a hash of rows by key and, where rows are evicted by use, a hash of marks by key.
//! Names and bytes are HugeCTR's. What comes back is checked: a row of another length is an error
//! that names its key, never a row.

use std::sync::Arc;

use redis::{Cmd, Value};
use terrace_tiers::{RedisSession, TierError};
use tokio::sync::Mutex;

use super::use_marks::UseMarks;
use crate::config::{OverflowConfig, RedisLevelConfig};
use crate::partition::PartitionRule;
use crate::table_spec::TableSpec;
use crate::table_tag::cluster_slot;

pub(super) struct RedisTable {
    pub(super) session: Arc<RedisSession>,
    pub(super) spec: TableSpec,
    pub(super) partitions: Vec<Partition>,
    pub(super) overflow: OverflowConfig,
    pub(super) marks: UseMarks,
    /// Rows of one command.
    pub(super) read_rows: usize,
    pub(super) write_rows: usize,
    /// Fields of one command without rows.
    pub(super) fields: usize,
    rule: PartitionRule,
}

pub(super) struct Partition {
    pub(super) rows: Hash,
    pub(super) marks: Hash,
    /// Not a hash.
    pub(super) trust: String,
    /// Held by whoever evicts: one at a time of this process.
    pub(super) evicting: Mutex<()>,
}

/// A hash, and where in a cluster it is.
pub(super) struct Hash {
    pub(super) name: String,
    pub(super) slot: u16,
}

impl Hash {
    fn new(name: String) -> Self {
        Hash { slot: cluster_slot(&name), name }
    }

    pub(super) fn count_command(&self) -> Cmd {
        let mut count = redis::cmd("HLEN");
        count.arg(&self.name);
        count
    }
}

/// Of one command or its answer: a server does nothing else meanwhile.
const COMMAND_BYTES: usize = 1 << 20;
/// What a field or a value takes beside its bytes.
const FRAME_BYTES: usize = 12;
/// As many fields as take a server about as long as rows of [`COMMAND_BYTES`].
const FIELDS_MOST: usize = 4096;

impl RedisTable {
    pub(super) fn new(
        session: Arc<RedisSession>,
        spec: TableSpec,
        config: &RedisLevelConfig,
        rule: PartitionRule,
    ) -> Self {
        assert!(spec.dim > 0 && config.num_partitions > 0, "{spec:?}");
        let partition = |number| Partition {
            rows: Hash::new(spec.tag.redis_value_key(number)),
            marks: Hash::new(spec.tag.redis_meta_key(number)),
            trust: spec.tag.redis_trust_key(number),
            evicting: Mutex::new(()),
        };
        let row_bytes = spec.row_bytes() + spec.key_kind.bytes() + 2 * FRAME_BYTES;
        let rows_most = (COMMAND_BYTES / row_bytes).max(1);
        RedisTable {
            session,
            partitions: (0..config.num_partitions).map(partition).collect(),
            marks: UseMarks::new(&config.fill.overflow),
            overflow: config.fill.overflow.clone(),
            read_rows: config.batches.read_rows.clamp(1, rows_most),
            write_rows: config.batches.write_rows.clamp(1, rows_most),
            fields: config.batches.write_rows.clamp(1, FIELDS_MOST),
            rule,
            spec,
        }
    }

    pub(super) fn partition_of(&self, key: i64) -> u32 {
        self.rule.partition(key, self.partitions.len() as u32)
    }

    pub(super) fn partition(&self, number: u32) -> &Partition {
        &self.partitions[number as usize]
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.overflow.margin < u64::MAX
    }

    /// A key that does not fit is in no table.
    pub(super) fn fits(&self, key: i64) -> bool {
        self.spec.key_kind.check(&[key]).is_ok()
    }

    pub(super) fn field(&self, key: i64) -> Field {
        Field { bytes: key.to_le_bytes(), count: self.spec.key_kind.bytes() }
    }

    /// The key of a field; `None` for one of another length.
    pub(super) fn key(&self, field: &[u8]) -> Option<i64> {
        let mut keys = Vec::with_capacity(1);
        let is_one = field.len() == self.spec.key_kind.bytes();
        (is_one && self.spec.key_kind.decode(field, &mut keys).is_ok()).then(|| keys[0])
    }

    /// Room for the bytes of a row.
    pub(super) fn row_buffer(&self) -> Vec<u8> {
        Vec::with_capacity(self.spec.row_bytes())
    }

    pub(super) fn hmget(&self, partition: u32, keys: &[i64], indices: &[u32]) -> Cmd {
        let hash = &self.partition(partition).rows.name;
        let bytes = hash.len() + 5 + indices.len() * self.spec.key_kind.bytes();
        let mut get = Cmd::with_capacity(indices.len() + 2, bytes);
        get.arg("HMGET").arg(hash);
        for index in indices {
            get.arg(self.field(keys[*index as usize]).as_ref());
        }
        get
    }

    /// Takes the rows that came for `indices`. After an error those before it.
    pub(super) fn take_rows(
        &self,
        answer: Value,
        keys: &[i64],
        indices: &[u32],
        rows: &mut [f32],
        found: &mut [bool],
    ) -> Result<(), TierError> {
        let Value::Array(values) = answer else { return Err(self.unexpected("HMGET")) };
        if values.len() != indices.len() {
            return Err(self.unexpected("HMGET"));
        }
        let dim = self.spec.dim;
        for (value, index) in values.iter().zip(indices.iter().map(|index| *index as usize)) {
            let bytes = match value {
                Value::Nil => continue,
                Value::BulkString(bytes) => bytes,
                _ => return Err(self.unexpected("HMGET")),
            };
            self.read_row(keys[index], bytes, &mut rows[index * dim..][..dim])?;
            found[index] = true;
        }
        Ok(())
    }

    /// Writes the numbers of a row to `row`; nothing where there are more or fewer.
    pub(super) fn read_row(
        &self,
        key: i64,
        bytes: &[u8],
        row: &mut [f32],
    ) -> Result<(), TierError> {
        let (numbers, rest) = bytes.as_chunks();
        if numbers.len() != row.len() || !rest.is_empty() {
            let RedisTable { spec, .. } = self;
            return Err(TierError::Protocol(format!(
                "redis: key {key} of {} has {} bytes, and a row of {} numbers has {}; it was \
                 written for another table, remove it or check embedding_vecsize_per_table",
                spec.tag,
                bytes.len(),
                spec.dim,
                spec.row_bytes()
            )));
        }
        for (number, bytes) in row.iter_mut().zip(numbers) {
            *number = f32::from_le_bytes(*bytes);
        }
        Ok(())
    }

    /// Of rows, and of their marks.
    pub(super) fn remove_commands(&self, partition: u32, fields: &[impl AsRef<[u8]>]) -> [Cmd; 2] {
        let Partition { rows, marks, .. } = self.partition(partition);
        [rows, marks].map(|hash| {
            let mut remove = Cmd::with_capacity(fields.len() + 2, fields.len() * 8 + 128);
            remove.arg("HDEL").arg(&hash.name);
            fields.iter().for_each(|field| {
                remove.arg(field.as_ref());
            });
            remove
        })
    }

    pub(super) fn read_count(&self, answer: &Value) -> Result<u64, TierError> {
        match answer {
            Value::Int(count) => u64::try_from(*count).map_err(|_| self.unexpected("HLEN")),
            _ => Err(self.unexpected("HLEN")),
        }
    }

    pub(super) fn unexpected(&self, command: &str) -> TierError {
        TierError::Protocol(format!(
            "redis: the answer to {command} for {} makes no sense; check that the nodes are Redis \
             6.2 or later",
            self.spec.tag
        ))
    }
}

/// The bytes of a key.
#[derive(Clone, Copy)]
pub(super) struct Field {
    bytes: [u8; 8],
    count: usize,
}

impl AsRef<[u8]> for Field {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}
