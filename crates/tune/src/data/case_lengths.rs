//! How many tokens each case has, found once and kept in a folder.
//!
//! Finding them takes as long as making all cases tokens. What is kept says what it was found of;
//! of other data, another tokenizer or a damaged file, they are found anew.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::case_source::CaseSource;
use super::data_error::DataError;

const VERSION: u32 = 1;
const FILE: &str = "case_lengths.json";

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    fingerprint: String,
    lengths: Vec<usize>,
}

/// Tokens that the model reads of each case. `step` is called after each that has to be made
/// tokens.
pub fn case_lengths(
    source: &dyn CaseSource,
    metadata_dir: Option<&Path>,
    step: &mut dyn FnMut(),
) -> Result<Vec<usize>, DataError> {
    let fingerprint = source.fingerprint();
    let file = metadata_dir.map(|folder| folder.join(FILE));
    if let (Some(file), Some(fingerprint)) = (&file, &fingerprint)
        && let Some(lengths) = kept(file, fingerprint, source.len())
    {
        return Ok(lengths);
    }
    let mut length = |number| {
        let length = source.case(number)?.inputs().len();
        step();
        Ok(length)
    };
    let lengths: Vec<usize> =
        (0..source.len()).map(&mut length).collect::<Result<_, DataError>>()?;
    if let (Some(file), Some(fingerprint)) = (file, fingerprint) {
        keep(&file, Kept { version: VERSION, fingerprint, lengths: lengths.clone() })
            .map_err(|error| DataError::Write { path: file, error })?;
    }
    Ok(lengths)
}

fn kept(file: &Path, fingerprint: &str, cases: usize) -> Option<Vec<usize>> {
    let kept: Kept = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let is_same = kept.version == VERSION && kept.fingerprint == fingerprint;
    (is_same && kept.lengths.len() == cases).then_some(kept.lengths)
}

/// The file is there whole, or as it was.
fn keep(file: &Path, kept: Kept) -> std::io::Result<()> {
    let folder = file.parent().expect("a file is in a folder");
    std::fs::create_dir_all(folder)?;
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    written.write_all(&serde_json::to_vec(&kept)?)?;
    written.as_file().sync_all()?;
    written.persist(file)?;
    Ok(())
}
