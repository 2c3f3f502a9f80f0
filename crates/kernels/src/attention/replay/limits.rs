//! How many slots there can be.

use crate::cpu::cpu_ctx::SCRATCH_FLOATS;

/// The memory of a worker holds a query's scores and their gradients.
pub(crate) const SLOTS_MOST: usize = SCRATCH_FLOATS / 2;
