//! The data sets that are known by name: where they lie, and what their columns are called.

mod data_folder;
mod kuairand;
mod log_source;
mod movielens;
mod sequence_lines;

use std::fmt;
use std::path::PathBuf;

pub use self::data_folder::DataFolder;
pub use self::log_source::{InferenceColumns, LogSource, UserSource};
use crate::dataset_error::DatasetError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dataset {
    KuaiRandPure,
    KuaiRand1k,
    KuaiRand27k,
    MovieLens1m,
    MovieLens20m,
    MovieLens100k,
    /// Sequences under a name of one's own: a file with a user and an item on each line, in the
    /// order of time. Without the file they can be read where they are preprocessed.
    Sequences {
        name: String,
        file: Option<PathBuf>,
    },
}

/// What the columns of a data set are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// The user first.
    pub context: &'static [&'static str],
    pub item: &'static str,
    pub action: Option<&'static str>,
    pub time: Option<&'static str>,
}

impl Dataset {
    pub const KNOWN: [Dataset; 6] = [
        Dataset::KuaiRandPure,
        Dataset::KuaiRand1k,
        Dataset::KuaiRand27k,
        Dataset::MovieLens1m,
        Dataset::MovieLens20m,
        Dataset::MovieLens100k,
    ];

    /// By its name on a command line, in any case; another name is one of sequences.
    pub fn named(name: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|known| known.name().eq_ignore_ascii_case(name));
        known.unwrap_or_else(|| Dataset::Sequences { name: name.to_owned(), file: None })
    }

    pub fn name(&self) -> &str {
        match self {
            Dataset::KuaiRandPure => "kuairand-pure",
            Dataset::KuaiRand1k => "kuairand-1k",
            Dataset::KuaiRand27k => "kuairand-27k",
            Dataset::MovieLens1m => "ml-1m",
            Dataset::MovieLens20m => "ml-20m",
            Dataset::MovieLens100k => "ml-100k",
            Dataset::Sequences { name, .. } => name,
        }
    }

    pub fn features(&self) -> Features {
        match self {
            Dataset::KuaiRandPure | Dataset::KuaiRand1k | Dataset::KuaiRand27k => {
                kuairand::FEATURES
            }
            Dataset::MovieLens1m | Dataset::MovieLens100k => movielens::FEATURES_WITH_USERS,
            Dataset::MovieLens20m => movielens::FEATURES,
            Dataset::Sequences { .. } => sequence_lines::FEATURES,
        }
    }

    /// Of its times.
    pub fn ticks_per_second(&self) -> i64 {
        match self {
            Dataset::KuaiRandPure | Dataset::KuaiRand1k | Dataset::KuaiRand27k => {
                kuairand::TICKS_PER_SECOND
            }
            _ => 1,
        }
    }

    /// The folder of its archive, and where in it the tables lie.
    fn archive_folder(&self) -> (&str, Option<&'static str>) {
        match self {
            Dataset::KuaiRandPure => ("KuaiRand-Pure", Some("data")),
            Dataset::KuaiRand1k => ("KuaiRand-1K", Some("data")),
            Dataset::KuaiRand27k => ("KuaiRand-27K", Some("data")),
            other => (other.name(), None),
        }
    }

    /// Its files in a folder.
    pub(crate) fn source(&self, folder: &DataFolder) -> Result<LogSource, DatasetError> {
        match self {
            Dataset::KuaiRandPure => kuairand::source(self, "pure", folder),
            Dataset::KuaiRand1k => kuairand::source(self, "1k", folder),
            Dataset::KuaiRand27k => kuairand::source(self, "27k", folder),
            Dataset::MovieLens1m => movielens::source_1m(folder),
            Dataset::MovieLens20m => movielens::source_20m(folder),
            Dataset::MovieLens100k => movielens::source_100k(folder),
            Dataset::Sequences { file, .. } => {
                Ok(sequence_lines::source(file.as_ref().expect("the caller has looked")))
            }
        }
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
