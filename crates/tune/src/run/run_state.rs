//! What a run needs to go on as if it had never stopped: its progress, the trained arrays and what
//! the optimiser remembers of them.
//!
//! A state is one safetensors file, `state-00000010.safetensors`: a file is there whole or not at
//! all, so the newest that can be read is the last whole state. Settings that change what is
//! computed are kept with it, and a run with other settings does not go on from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::progress::Progress;
use crate::saved_file::save_file;

/// The states of a run, in a folder of their own.
pub struct RunStates {
    folder: PathBuf,
    /// Names and values that must be the same for a run to go on.
    settings: BTreeMap<String, String>,
}

/// Arrays by name, each as long as it was.
pub(crate) type Arrays = BTreeMap<String, Vec<f32>>;

#[derive(Serialize, Deserialize)]
struct About {
    version: u32,
    progress: Progress,
    settings: BTreeMap<String, String>,
    /// Of all arrays' bytes, in the order of their names.
    hash: String,
}

const VERSION: u32 = 1;
/// Where a file says what it is, as the `safetensors` format allows.
const ABOUT: &str = "terrace_run_state";
const PREFIX: &str = "state-";
const SUFFIX: &str = ".safetensors";

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("cannot save the run's state {}: {error}", path.display())]
    Write { path: PathBuf, error: std::io::Error },
    #[error("cannot read the run's state {}: {problem}", path.display())]
    Read { path: PathBuf, problem: String },
    #[error(
        "the run in {} had {name} {was}, and has {is} now: it cannot go on so; give {was} again, \
         or another out_dir", folder.display()
    )]
    Settings { folder: PathBuf, name: String, was: String, is: String },
}

impl RunStates {
    /// Nothing is read or made yet.
    pub fn new(folder: PathBuf, settings: BTreeMap<String, String>) -> Self {
        RunStates { folder, settings }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The steps after which there are states, newest first.
    pub fn steps(&self) -> Vec<u64> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let step =
            |name: String| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse::<u64>().ok();
        let mut steps: Vec<u64> = names.filter_map(step).collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        steps
    }

    /// Saves one, and removes all but the newest `kept`.
    pub(crate) fn save(
        &self,
        progress: &Progress,
        arrays: &Arrays,
        kept: usize,
    ) -> Result<(), StateError> {
        let path = self.path(progress.step);
        let write = |error| StateError::Write { path: path.clone(), error };
        let bytes: Vec<(&String, Vec<u8>)> =
            arrays.iter().map(|(name, numbers)| (name, little_endian(numbers))).collect();
        let about = About {
            version: VERSION,
            progress: *progress,
            settings: self.settings.clone(),
            hash: hash(bytes.iter().map(|(_, bytes)| &bytes[..])),
        };
        let about = serde_json::to_string(&about).expect("numbers and texts");
        let views = bytes.iter().map(|(name, bytes)| {
            let view = TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes);
            (name.as_str(), view.expect("as long as its shape says"))
        });
        let about = [(ABOUT.to_owned(), about)].into_iter().collect();
        let file = serialize(views, Some(about)).map_err(|error| write(other(error)))?;
        save_file(&path, &file).map_err(write)?;
        for old in self.steps().into_iter().skip(kept.max(1)) {
            // It may be gone already; the next save tries again.
            let _ = fs::remove_file(self.path(old));
        }
        Ok(())
    }

    /// The newest state that is whole, if there is any.
    pub(crate) fn newest(&self) -> Result<Option<(Progress, Arrays)>, StateError> {
        let mut damaged = None;
        for step in self.steps() {
            match self.read(step) {
                Ok(found) => return Ok(Some(found)),
                Err(error @ StateError::Settings { .. }) => return Err(error),
                Err(error) => {
                    tracing::warn!("{error}; looking for an older one");
                    damaged = damaged.or(Some(error));
                }
            }
        }
        // States there were, and none of them can be read: to begin anew would lose the run.
        damaged.map_or(Ok(None), Err)
    }

    fn read(&self, step: u64) -> Result<(Progress, Arrays), StateError> {
        let path = self.path(step);
        let wrong = |problem: String| StateError::Read { path: path.clone(), problem };
        let bytes = fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        let (_, header) =
            SafeTensors::read_metadata(&bytes).map_err(|error| wrong(error.to_string()))?;
        let about = header.metadata().as_ref().and_then(|about| about.get(ABOUT));
        let about = about.ok_or_else(|| wrong("it does not say what it is".to_owned()))?;
        let about: About = serde_json::from_str(about).map_err(|error| wrong(error.to_string()))?;
        if about.version != VERSION {
            return Err(wrong(format!("it has version {}, not {VERSION}", about.version)));
        }
        self.compare(&about.settings)?;
        let file = SafeTensors::deserialize(&bytes).map_err(|error| wrong(error.to_string()))?;
        let views: BTreeMap<_, _> = file.tensors().into_iter().collect();
        if hash(views.values().map(|view| view.data())) != about.hash {
            return Err(wrong("its arrays are not those that were saved".to_owned()));
        }
        let mut arrays = Arrays::new();
        for (name, view) in views {
            if view.dtype() != Dtype::F32 {
                return Err(wrong(format!("{name} has numbers of type {:?}", view.dtype())));
            }
            let numbers = view.data().chunks_exact(4);
            let numbers = numbers.map(|x| f32::from_le_bytes(x.try_into().expect("four bytes")));
            arrays.insert(name, numbers.collect());
        }
        Ok((about.progress, arrays))
    }

    fn compare(&self, was: &BTreeMap<String, String>) -> Result<(), StateError> {
        let nothing = || "(left out)".to_owned();
        for name in self.settings.keys().chain(was.keys()) {
            let value = |settings: &BTreeMap<String, String>| settings.get(name).cloned();
            let (is, was) = (value(&self.settings), value(was));
            if is != was {
                return Err(StateError::Settings {
                    folder: self.folder.clone(),
                    name: name.clone(),
                    was: was.unwrap_or_else(nothing),
                    is: is.unwrap_or_else(nothing),
                });
            }
        }
        Ok(())
    }

    fn path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("{PREFIX}{step:08}{SUFFIX}"))
    }
}

fn hash<'b>(arrays: impl Iterator<Item = &'b [u8]>) -> String {
    let mut hash = XxHash3_128::new();
    arrays.for_each(|bytes| hash.write(bytes));
    format!("{:032x}", hash.finish_128())
}

fn little_endian(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn other(error: impl std::fmt::Display) -> std::io::Error {
    std::io::Error::other(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(folder: &Path, rate: &str) -> RunStates {
        let settings = [("optimizer.learning_rate".to_owned(), rate.to_owned())];
        RunStates::new(folder.join("training_state"), settings.into())
    }

    fn arrays(first: f32) -> Arrays {
        [("a".to_owned(), vec![]), ("b".to_owned(), vec![first, -0.5])].into()
    }

    fn at(step: u64) -> Progress {
        Progress { step, epoch: 2, seconds: 1.5, ..Progress::default() }
    }

    #[test]
    fn the_newest_whole_state_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let states = states(folder.path(), "0.1");
        assert!(states.newest().unwrap().is_none());
        for step in [5, 10, 15, 20] {
            states.save(&at(step), &arrays(step as f32), 3).unwrap();
        }
        assert_eq!(states.steps(), [20, 15, 10]);
        assert_eq!(states.newest().unwrap(), Some((at(20), arrays(20.0))));
        let newest = states.path(20);
        let whole = fs::read(&newest).unwrap();
        for cut in [0, 7, whole.len() / 2, whole.len() - 1] {
            fs::write(&newest, &whole[..cut]).unwrap();
            assert_eq!(states.newest().unwrap(), Some((at(15), arrays(15.0))), "cut to {cut}");
        }
        let mut flipped = whole;
        *flipped.last_mut().unwrap() ^= 1;
        fs::write(&newest, &flipped).unwrap();
        assert_eq!(states.newest().unwrap(), Some((at(15), arrays(15.0))), "one bit");
        for step in [10, 15] {
            fs::write(states.path(step), b"{}").unwrap();
        }
        let error = states.newest().expect_err("all are damaged").to_string();
        assert!(error.contains("state-00000020"), "{error}");
    }

    #[test]
    fn a_run_with_other_settings_does_not_go_on() {
        let folder = tempfile::tempdir().unwrap();
        states(folder.path(), "0.1").save(&at(5), &arrays(1.0), 3).unwrap();
        let error = states(folder.path(), "0.2").newest().expect_err("another rate").to_string();
        assert!(error.contains("optimizer.learning_rate 0.1, and has 0.2 now"), "{error}");
    }
}
