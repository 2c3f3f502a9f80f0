//! What is kept of a table to compare it with another: a hash of each row, by key.
//!
//! 16 bytes for each key, and half as much again while they are sorted: tables may be far larger
//! than memory. Two rows that differ have the same hash once in 2^64 times.

use terrace_tiers::TierError;
use twox_hash::XxHash3_64;

use super::audited_rows::AuditedRows;
use crate::key_kind::KeyKind;
use crate::load::LoadError;

/// Each key once, in their order.
pub struct RowDigests {
    rows: Vec<(i64, u64)>,
    dim: usize,
}

impl RowDigests {
    /// Reads all rows. Of a key that repeats, the last one counts. Calls `progress` with how many
    /// it has read.
    pub fn read(
        rows: AuditedRows<'_>,
        kind: KeyKind,
        dim: usize,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, LoadError> {
        let (mut digests, mut bytes) = (Vec::new(), Vec::new());
        let count = usize::try_from(rows.count()?).unwrap_or(usize::MAX);
        digests.try_reserve_exact(count).map_err(|_| no_memory(count))?;
        rows.scan(kind, &mut |keys, numbers| {
            // Where the count was a guess; not to the double.
            if digests.capacity() - digests.len() < keys.len() {
                let more = keys.len().max(digests.len() / 4);
                digests.try_reserve_exact(more).map_err(|_| no_memory(digests.len()))?;
            }
            for (key, row) in keys.iter().zip(numbers.chunks_exact(dim)) {
                digests.push((*key, digest(row, &mut bytes)));
            }
            progress(digests.len() as u64);
            Ok(())
        })?;
        // Stable, so that of equal keys the last stays the last.
        digests.sort_by_key(|(key, _)| *key);
        digests.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                *earlier = *later;
            }
            is_same
        });
        Ok(RowDigests { rows: digests, dim })
    }

    /// Different keys.
    pub fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Numbers of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    pub(super) fn rows(&self) -> &[(i64, u64)] {
        &self.rows
    }
}

fn digest(row: &[f32], bytes: &mut Vec<u8>) -> u64 {
    bytes.clear();
    bytes.extend(row.iter().flat_map(|number| number.to_le_bytes()));
    XxHash3_64::oneshot(bytes)
}

fn no_memory(rows: usize) -> TierError {
    TierError::Full(format!(
        "there is no memory for the keys of {rows} rows; comparing takes up to 24 bytes for each"
    ))
}
