//! `sum += delta` on a GPU; on the CPU it stands with the norm that often follows it.

pub(crate) mod cuda;
