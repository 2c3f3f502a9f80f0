//! What generative recommenders of the HSTU kind compute beyond products: pointwise attention,
//! layer norms, gates, and what comes before the first layer and after the last.

pub(crate) mod activate;
pub(crate) mod attention;
pub(crate) mod cuda;
pub(crate) mod embed_tokens;
pub(crate) mod gated_norm;
mod hstu_ops;
pub(crate) mod layer_norm;
pub(crate) mod step_rows;
pub(crate) mod top_items;
pub(crate) mod unit_rows;
