//! A part of a hash, as HSCAN gives it: some fields with their values, and where to go on.
//!
//! A field that is there all the time is in at least one page, and may be in several.

use redis::{Cmd, Value};
use terrace_tiers::TierError;

use super::redis_table::{Hash, RedisTable};

pub(super) struct HashPage {
    /// `None` after the last one.
    pub(super) next: Option<Cursor>,
    pub(super) entries: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Where a page begins.
pub(super) struct Cursor(Vec<u8>);

impl Cursor {
    pub(super) fn first() -> Self {
        Cursor(b"0".to_vec())
    }

    /// About so many fields; of a small hash all.
    pub(super) fn command(&self, hash: &Hash, fields: usize) -> Cmd {
        let mut scan = redis::cmd("HSCAN");
        scan.arg(&hash.name).arg(&self.0).arg("COUNT").arg(fields);
        scan
    }
}

impl HashPage {
    pub(super) fn read(table: &RedisTable, answer: Value) -> Result<Self, TierError> {
        let unexpected = || table.unexpected("HSCAN");
        let Value::Array(parts) = answer else { return Err(unexpected()) };
        let Ok([cursor, fields]) = <[Value; 2]>::try_from(parts) else { return Err(unexpected()) };
        let (Value::BulkString(cursor), Value::Array(fields)) = (cursor, fields) else {
            return Err(unexpected());
        };
        let mut entries = Vec::with_capacity(fields.len() / 2);
        let mut fields = fields.into_iter();
        while let Some(field) = fields.next() {
            match (field, fields.next()) {
                (Value::BulkString(field), Some(Value::BulkString(value))) => {
                    entries.push((field, value));
                }
                _ => return Err(unexpected()),
            }
        }
        let next = (cursor != b"0").then_some(Cursor(cursor));
        Ok(HashPage { next, entries })
    }
}
