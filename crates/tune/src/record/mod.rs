//! What a tuning run leaves behind: numbers of every step, and a report drawn from them.
//!
//! A run writes a [`StepRecord`] a step and a [`ValidationRecord`] a validation to its [`RunLog`]s,
//! which are chosen by name ([`LogKind`]). [`CsvLog`] is always among them: a [`Report`] is drawn
//! from its files, also while the run goes on. Nothing here knows the model or the training loop,
//! and nothing is sent anywhere.

mod csv_file;
mod csv_log;
mod csv_row;
mod log_kind;
mod record_error;
mod report;
mod run_log;
mod run_start;
mod step_record;
mod tensor_board;
mod validation_record;

pub use csv_log::CsvLog;
pub use log_kind::{LogKind, LogKindError};
pub use record_error::RecordError;
pub use report::Report;
pub use run_log::RunLog;
pub use run_start::RunStart;
pub use step_record::StepRecord;
pub use tensor_board::TensorBoardLog;
pub use validation_record::ValidationRecord;
