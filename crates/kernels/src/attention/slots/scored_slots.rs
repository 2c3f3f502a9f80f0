//! How long a cache with scores may be: devices keep a row's weights until all its keys are seen.

use super::own_scores::SLOT_FLOATS;
use crate::cpu::cpu_ctx::SCRATCH_FLOATS;

/// Weights that a GPU keeps at once, 36 MB with their units: of 32 rows of 32 heads over 16,384
/// slots.
pub(crate) const KEPT_WEIGHTS: usize = 16 * 1024 * 1024;
/// More than tables, whose pages are whole, round a sequence's slots up by.
const ROUNDING: usize = 4096;

/// Most slots that a cache with scores may have, whatever the device.
pub fn max_scored_slots(heads: usize, kv_heads: usize) -> usize {
    let row = kv_heads * (heads / kv_heads).next_multiple_of(4);
    let on_cpu = SCRATCH_FLOATS / SLOT_FLOATS;
    (KEPT_WEIGHTS / row).min(on_cpu).saturating_sub(ROUNDING)
}
