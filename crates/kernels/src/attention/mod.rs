//! Attention of a step's rows over the keys and values of their sequences: dense, over pages in
//! order ([`dense`]), and over the slots that a policy keeps ([`slots`]).

pub(crate) mod attend_args;
pub(crate) mod blocks;
pub(crate) mod dense;
mod kernel_args;
pub(crate) mod kv_rows;
pub(crate) mod live_heads;
pub(crate) mod rope_commit;
pub(crate) mod slots;
pub(crate) mod split_kv;
