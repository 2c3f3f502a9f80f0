//! Sequences as they are written: a row for each user, lists as text.

mod inference_sequences;
mod list_column;
mod output_folder;
mod report;
mod training_sequences;

pub use inference_sequences::InferenceSequences;
pub use list_column::{ListColumn, ListOf};
pub use output_folder::OutputFolder;
pub use report::{ColumnRange, InferenceReport, SequenceReport};
pub use training_sequences::TrainingSequences;
