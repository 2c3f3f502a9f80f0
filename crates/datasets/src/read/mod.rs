//! Sequences that were preprocessed, row by row.

mod batch_table;
mod id_list;
mod sample;
mod sequence_index;
mod sequence_table;
mod split;

pub use batch_table::{BatchTable, IntervalBatch};
pub use sample::{Kept, Sample, SampleRule};
pub use sequence_index::{DaySequence, SequenceIndex};
pub use sequence_table::{SequenceColumns, SequenceTable, UserSequence, column_names};
pub use split::{Split, SplitSequences};
