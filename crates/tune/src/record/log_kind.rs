//! Logs by the names that users give them.

use std::path::Path;

use super::csv_log::CsvLog;
use super::record_error::RecordError;
use super::run_log::RunLog;
use super::run_start::RunStart;
use super::tensor_board::TensorBoardLog;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    Csv,
    /// Beside the CSV files.
    TensorBoard,
}

/// Loggers of other trainers that are clients of a service.
const SERVICES: [&str; 2] = ["wandb", "mlflow"];

impl LogKind {
    pub const ALL: [LogKind; 2] = [LogKind::Csv, LogKind::TensorBoard];

    pub const fn name(self) -> &'static str {
        match self {
            LogKind::Csv => "csv",
            LogKind::TensorBoard => "tensorboard",
        }
    }

    pub fn named(name: &str) -> Result<Self, LogKindError> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| match SERVICES.contains(&name) {
            true => LogKindError::Service { name: name.to_owned() },
            false => LogKindError::Unknown { name: name.to_owned() },
        })
    }

    /// The logs of a run that writes to `folder`, which is made where it is not there.
    pub fn open(self, folder: &Path, start: RunStart) -> Result<Vec<Box<dyn RunLog>>, RecordError> {
        let mut logs: Vec<Box<dyn RunLog>> = vec![Box::new(CsvLog::open(folder, start)?)];
        if self == LogKind::TensorBoard {
            logs.push(Box::new(TensorBoardLog::open(folder, start)?));
        }
        Ok(logs)
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogKindError {
    #[error(
        "the logger {name} sends the run to a service of others, and Terrace only writes files: \
         choose tensorboard, whose files can be imported there, or csv"
    )]
    Service { name: String },
    #[error("there is no logger {name:?}: choose csv or tensorboard")]
    Unknown { name: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_their_names() {
        for kind in LogKind::ALL {
            assert_eq!(LogKind::named(kind.name()), Ok(kind));
        }
    }

    #[test]
    fn services_are_refused_with_the_reason() {
        for name in ["wandb", "mlflow"] {
            let error = LogKind::named(name).expect_err("it is a service").to_string();
            assert!(error.contains(name) && error.contains("choose tensorboard"), "{error}");
        }
        let error = LogKind::named("CSV").expect_err("names are exact").to_string();
        assert!(error.contains("\"CSV\"") && error.contains("csv or tensorboard"), "{error}");
    }
}
