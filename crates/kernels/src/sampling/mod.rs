//! Scores of the next token in, one token out: the stages that look at the whole distribution.
//!
//! logits: f32 `[rows, vocab]` · ids: i32 `[rows]`
//!
//! The order is fixed: the best token, or temperature, top-k, top-p, min-p, typical-p and a draw.
//! What comes before (penalties, biases) is the engine's. On the CPU a worker samples row by row
//! with a [`Chooser`]; it is the reference of the GPU's kernel, which samples all rows of a step
//! and has no typical-p.
//!
//! Roofline: 4 bytes per logit, read once; about 30 flops per logit and filter. Greedy rows are
//! bound by memory, drawn ones by arithmetic.

mod argmax;
mod chooser;
mod cuda;
mod draw;
mod min_p;
mod pick;
mod sample_row;
mod softmax;
mod temperature;
#[cfg(test)]
mod tests;
mod top_k;
mod top_p;
mod typical_p;

pub use crate::random::philox::uniform;
pub use argmax::{argmax, max};
pub use chooser::{Chooser, Narrowed};
pub use cuda::SampleKernel;
pub use pick::{Draw, Pick};
pub use sample_row::SampleRow;
pub use softmax::weigh;
pub use top_k::kth_largest;
