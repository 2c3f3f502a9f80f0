//! Keys and rows of a shard, one after the other, in blocks.
//!
//! Rows have the numbers 0 up to their count, without gaps. The last block grows in small steps and
//! no other ever moves, so that little memory is taken ahead of need, and none twice.

use terrace_device::prefetch;

pub(super) struct RowBlocks {
    dim: usize,
    blocks: Vec<Vec<f32>>,
    count: usize,
    block_rows: usize,
    /// Divides a row's number by `block_rows`: a product, shifted.
    inverse: u64,
}

/// A block is close to one of an allocator's size classes, and large, so that where all blocks are
/// stays in a cache.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// By which the last block grows, of what it has; by a few rows at the least.
pub(super) const BLOCK_GROWTH: f64 = 1.0 / 8.0;
/// The bits of a key, as two numbers.
const KEY_NUMBERS: usize = 2;
/// Rows by which the last block grows at the least.
const GROWTH_ROWS: usize = 16;
/// Above the bits of a row's number and those of a block's rows together, 24 and 17, so that
/// quotients are exact.
const INVERSE_SHIFT: u32 = 42;

impl RowBlocks {
    pub(super) fn new(dim: usize) -> Self {
        let record_bytes = (dim + KEY_NUMBERS) * size_of::<f32>();
        let block_rows = (BLOCK_BYTES / record_bytes).max(GROWTH_ROWS);
        let inverse = (1u64 << INVERSE_SHIFT).div_ceil(block_rows as u64);
        RowBlocks { dim, blocks: Vec::new(), count: 0, block_rows, inverse }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn key(&self, row: u32) -> i64 {
        key_of(self.record(row))
    }

    /// Begins to bring a key and its row.
    #[inline]
    pub(super) fn prefetch(&self, row: u32) {
        prefetch(self.record(row));
    }

    #[inline]
    pub(super) fn row(&self, row: u32) -> &[f32] {
        &self.record(row)[KEY_NUMBERS..]
    }

    pub(super) fn replace(&mut self, row: u32, numbers: &[f32]) {
        let (block, at) = self.location(row);
        self.blocks[block][at + KEY_NUMBERS..][..self.dim].copy_from_slice(numbers);
    }

    /// Adds a row; its number is the count before.
    pub(super) fn push(&mut self, key: i64, numbers: &[f32]) {
        let (record, block_numbers) =
            (self.dim + KEY_NUMBERS, self.block_rows * self.record_numbers());
        if self.blocks.last().is_none_or(|last| last.len() == block_numbers) {
            self.blocks.push(Vec::new());
        }
        let last = self.blocks.last_mut().expect("just made sure of");
        if last.capacity() - last.len() < record {
            let rest = block_numbers - last.len();
            let more = (last.len() as f64 * BLOCK_GROWTH) as usize / record;
            last.reserve_exact(rest.min(GROWTH_ROWS.max(more) * record));
        }
        let key = key.cast_unsigned();
        last.extend([key as u32, (key >> 32) as u32].map(f32::from_bits));
        last.extend_from_slice(numbers);
        self.count += 1;
    }

    /// Takes a row out; the last one takes its place and number.
    pub(super) fn swap_remove(&mut self, row: u32) {
        let record = self.record_numbers();
        let (block, at) = self.location(row);
        let last = self.blocks.last_mut().expect("there is a row");
        let start = last.len() - record;
        let moved = last.split_off(start);
        if last.is_empty() {
            self.blocks.pop();
        }
        self.count -= 1;
        if (row as usize) < self.count {
            self.blocks[block][at..at + record].copy_from_slice(&moved);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let numbers: usize = self.blocks.iter().map(Vec::capacity).sum();
        numbers * size_of::<f32>() + self.blocks.capacity() * size_of::<Vec<f32>>()
    }

    #[inline]
    fn record(&self, row: u32) -> &[f32] {
        let (block, at) = self.location(row);
        &self.blocks[block][at..at + self.record_numbers()]
    }

    fn record_numbers(&self) -> usize {
        self.dim + KEY_NUMBERS
    }

    #[inline]
    fn location(&self, row: u32) -> (usize, usize) {
        let block = ((u64::from(row) * self.inverse) >> INVERSE_SHIFT) as usize;
        (block, (row as usize - block * self.block_rows) * self.record_numbers())
    }
}

#[inline]
fn key_of(record: &[f32]) -> i64 {
    let [low, high] = [record[0], record[1]].map(|number| u64::from(number.to_bits()));
    (low | high << 32).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::key_slots::ROWS_MAX;

    #[test]
    fn a_row_is_where_its_number_says() {
        for dim in [1, 2, 3, 5, 16, 64, 100, 4096, 1 << 20] {
            let blocks = RowBlocks::new(dim);
            let whole = ROWS_MAX / blocks.block_rows * blocks.block_rows;
            let edges = [0, blocks.block_rows, whole, ROWS_MAX];
            for row in edges.into_iter().flat_map(|edge| edge.saturating_sub(1)..=edge + 1) {
                let row = row.min(ROWS_MAX);
                let at = row % blocks.block_rows * (dim + KEY_NUMBERS);
                let want = (row / blocks.block_rows, at);
                assert_eq!(blocks.location(row as u32), want, "row {row} of {dim}");
            }
        }
    }
}
