//! Data sets of recommenders: their own files become sequences by user, and sequences are read.
//!
//! [`preprocess`] reads interaction logs of any length in bounded memory: events are sorted by user
//! and time on disk. [`read`] streams what was written. Nothing here knows a model.

#![forbid(unsafe_code)]

mod dataset;
mod dataset_error;
mod event;
mod log;
mod output;
mod preprocess;
pub mod read;
mod sort;
mod text;
mod users;

pub use dataset::{DataFolder, Dataset, Features};
pub use dataset_error::DatasetError;
pub use event::Event;
pub use output::{ColumnRange, InferenceReport, SequenceReport};
pub use preprocess::{PreprocessOptions, PreprocessReport, Stage, preprocess};
