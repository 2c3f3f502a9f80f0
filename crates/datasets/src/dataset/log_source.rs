//! A data set's own files, and what is to become of them.

use std::path::{Path, PathBuf};

use crate::dataset_error::{DatasetError, excerpt};
use crate::log::LogFiles;
use crate::output::ListColumn;
use crate::users::{RawTable, TableForm, UserColumn, UserContent};

/// What preprocessing reads, and which columns it writes.
#[derive(Debug)]
pub struct LogSource {
    pub logs: LogFiles,
    /// Which period of time each file is of; sequences of inference are written period by period.
    pub periods: Vec<usize>,
    /// Users are left out that are not in every log file.
    pub joins_files: bool,
    pub users: Option<UserSource>,
    /// What stands in a row behind the user.
    pub lists: &'static [ListColumn],
    /// `None` where there are no times.
    pub inference: Option<InferenceColumns>,
}

/// The table of users; those who are not in it are left out.
#[derive(Debug)]
pub struct UserSource {
    pub path: PathBuf,
    pub form: TableForm,
    pub columns: UserColumns,
}

#[derive(Debug)]
pub enum UserColumns {
    /// All, in their order, with codes for those named.
    All {
        coded: &'static [&'static str],
    },
    These(Vec<UserColumn>),
}

/// Of the rows for inference.
#[derive(Clone, Copy, Debug)]
pub struct InferenceColumns {
    pub lists: &'static [ListColumn],
    /// Each date has a row of its own.
    pub by_date: bool,
    pub ticks_per_second: i64,
}

impl UserColumns {
    /// Those of a table.
    pub fn listed(&self, raw: &RawTable, path: &Path) -> Result<Vec<UserColumn>, DatasetError> {
        let needed: Vec<&str> = match self {
            UserColumns::All { coded } => coded.to_vec(),
            UserColumns::These(columns) => columns.iter().map(|it| it.source.as_str()).collect(),
        };
        let is_there = |name: &str| raw.names.iter().any(|known| known == name);
        if let Some(missing) = needed.into_iter().find(|name| !is_there(name)) {
            let header = excerpt(raw.names.join(", ").as_bytes());
            let (path, column) = (path.to_owned(), missing.to_owned());
            return Err(DatasetError::MissingColumn { path, column, header });
        }
        let column = |coded: &[&str], name: &String| {
            let is_coded = coded.contains(&name.as_str());
            let content = if is_coded { UserContent::Code } else { UserContent::Cell };
            UserColumn { source: name.clone(), name: name.clone(), content }
        };
        Ok(match self {
            UserColumns::All { coded } => raw.names.iter().map(|it| column(coded, it)).collect(),
            UserColumns::These(columns) => columns.clone(),
        })
    }
}
