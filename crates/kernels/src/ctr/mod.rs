//! What click-through models compute beyond products: pooled embedding rows, feature crosses,
//! reductions, and rows that are put side by side or under other shapes.

pub(crate) mod activation;
pub(crate) mod arrange;
pub(crate) mod attend_sequences;
pub(crate) mod combine;
pub(crate) mod cross_step;
mod ctr_ops;
pub(crate) mod dice;
pub(crate) mod fm_order2;
pub(crate) mod interact;
pub(crate) mod multi_cross;
pub(crate) mod pool_rows;
pub(crate) mod reduce_rows;
pub(crate) mod repeat;
pub(crate) mod scale_shift;
pub(crate) mod sequence_mask;
pub(crate) mod softmax_rows;
pub(crate) mod weight_multiply;
