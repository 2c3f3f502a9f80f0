//! What a model is tuned with: examples from files as token sequences, in batches.
//!
//! A [`CaseSource`] has examples by number, of a file ([`JsonLines`], [`LongBench`]) or of one's
//! own. Their lengths are found once and kept ([`case_lengths`]); by lengths they are split into
//! those that train, validate and test ([`Split`]), put in order ([`BatchOrder`]), and laid side by
//! side ([`CaseBatch`]). Nothing here knows the model: who needs targets asks a batch for them.

mod batch_order;
mod case;
mod case_batch;
mod case_lengths;
mod case_source;
mod case_text;
mod data_error;
mod json_lines;
mod line_index;
mod long_bench;
mod split;
mod text_encoder;

pub use batch_order::{BatchOrder, FirstBatches};
pub use case::{Case, CaseTargets};
pub use case_batch::{CaseBatch, IGNORED_TARGET};
pub use case_lengths::case_lengths;
pub use case_source::CaseSource;
pub use data_error::DataError;
pub use json_lines::JsonLines;
pub use long_bench::{AnswerForm, LongBench};
pub use split::{Split, SplitOptions, TestSet};
pub use text_encoder::{EncodeError, TextEncoder};
