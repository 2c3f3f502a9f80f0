//! Who runs plans: the CPU, and a GPU.

pub(crate) mod batch;
pub(crate) mod cpu_executor;
pub(crate) mod cuda;
pub(crate) mod row_reader;
pub(crate) mod step_bounds;
