//! Attention of a step's rows over the keys and values of their sequences: dense, over pages in
//! order ([`dense`]), over the slots that a policy keeps ([`slots`]), and over slots as a replay
//! gives them, with gradients ([`replay`]).

pub(crate) mod attend_args;
pub(crate) mod blocks;
pub(crate) mod dense;
mod kernel_args;
pub(crate) mod kv_rows;
pub(crate) mod live_heads;
pub(crate) mod replay;
pub(crate) mod rope_commit;
pub(crate) mod slots;
pub(crate) mod split_kv;
