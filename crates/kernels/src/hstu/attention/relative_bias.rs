//! What is added to scores by the distance of positions and of times.

use terrace_device::View;

use super::placed_time_buckets::PlacedTimeBuckets;
use crate::linear::vector::Vector;

/// `bias_ij = by_position[(n - 1) + j - i] + by_time[bucket(row_time_i - key_time_j)]`, with
/// positions i and j, and n half the positions of the table, rounded up.
#[derive(Clone, Copy)]
pub struct RelativeBias<'a> {
    /// f32 `[2 n - 1]`
    pub by_position: &'a Vector,
    /// f32 `[buckets]`
    pub by_time: &'a Vector,
    pub buckets: &'a PlacedTimeBuckets,
    /// i64 `[tokens]`: when the event after each row's happened.
    pub row_times: View<'a>,
    /// i64 `[seqs, positions]`: when that of each position happened.
    pub key_times: View<'a>,
}

impl RelativeBias<'_> {
    /// Of the row `token` at `position`, with the key at position `key`.
    pub(crate) fn get(&self, seq: usize, token: usize, position: usize, key: usize) -> f32 {
        let by_position = self.by_position.view().as_slice::<f32>();
        let zero = by_position.len() / 2;
        let row_time = self.row_times.as_slice::<i64>()[token];
        let difference = row_time.saturating_sub(self.key_times.row::<i64>(seq)[key]);
        let by_time = self.by_time.view().as_slice::<f32>();
        by_time[self.buckets.buckets().bucket(difference)] + by_position[zero + key - position]
    }
}
