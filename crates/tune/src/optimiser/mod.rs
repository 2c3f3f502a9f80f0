//! Optimisers as PyTorch's are, in its order of operations; how their rate changes by step, and
//! how gradients are kept from being too large.

mod adadelta;
mod adam;
mod adamax;
mod build;
mod clip;
#[expect(clippy::module_inception, reason = "the folder and its main type have the same name")]
mod optimiser;
mod options;
mod rmsprop;
mod schedule;
mod sgd;

pub use clip::clip_gradients;
pub use optimiser::{Optimiser, OptimiserStep};
pub use options::{OptimiserKind, OptimiserOptions};
pub use schedule::Schedule;
