//! Where a data set's files lie, and where what becomes of them is written.

use std::path::{Path, PathBuf};

use super::Dataset;

/// The folder with a data set's own tables; sequences stand beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFolder {
    pub path: PathBuf,
    /// A row for each user.
    pub sequences: PathBuf,
}

impl DataFolder {
    /// What the original uses where no path is given.
    pub const DEFAULT_PATH: &str = "tmp_data";

    /// Where the archive was unpacked in `dataset_path`, or this itself: the first of them that has
    /// a file of which `is_wanted`, by its name. Where none has, the first.
    pub fn find(dataset: &Dataset, dataset_path: &Path, is_wanted: impl Fn(&str) -> bool) -> Self {
        let (archive, inner) = dataset.archive_folder();
        let archive = dataset_path.join(archive);
        let mut folders = vec![archive.clone(), dataset_path.to_owned()];
        if let Some(inner) = inner {
            folders.insert(0, archive.join(inner));
        }
        let has_wanted = |folder: &&PathBuf| file_names(folder).iter().any(|name| is_wanted(name));
        let found = folders.iter().find(has_wanted).unwrap_or(&folders[0]);
        DataFolder::at(found.clone())
    }

    pub fn at(path: PathBuf) -> Self {
        DataFolder { sequences: path.join(SEQUENCES), path }
    }

    /// Where the sequences are that were preprocessed; the file of them may be given itself.
    pub fn of_sequences(dataset: &Dataset, dataset_path: &Path) -> Self {
        if dataset_path.is_file() {
            let folder = dataset_path.parent().unwrap_or(Path::new("."));
            return DataFolder { sequences: dataset_path.into(), path: folder.into() };
        }
        Self::find(dataset, dataset_path, |name| [SEQUENCES, BATCHES].contains(&name))
    }

    /// A row for each user and date.
    pub fn inference_sequences(&self) -> PathBuf {
        self.path.join(INFERENCE_SEQUENCES)
    }

    /// The intervals of those rows.
    pub fn batches(&self) -> PathBuf {
        self.path.join(BATCHES)
    }

    /// Files whose names begin and end so, the shortest first and then by name: `part2` is before
    /// `part10`.
    pub(super) fn files(&self, prefix: &str, suffix: &str) -> Vec<PathBuf> {
        let mut names = file_names(&self.path);
        names.retain(|name| name.starts_with(prefix) && name.ends_with(suffix));
        names.sort_by(|a, b| a.len().cmp(&b.len()).then(a.cmp(b)));
        names.into_iter().map(|name| self.path.join(name)).collect()
    }
}

const SEQUENCES: &str = "processed_seqs.csv";
const INFERENCE_SEQUENCES: &str = "processed_seqs_inference.csv";
const BATCHES: &str = "processed_batches.csv";

/// Empty where there is no such folder.
fn file_names(folder: &Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
