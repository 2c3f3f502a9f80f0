//! Loading with the `tokenizers` crate, whose panics become errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::error::Error;

/// Runs code of the `tokenizers` crate on a file that may be broken: the crate panics on some
/// (a merge shorter than its prefix, say), and a broken file must be an error.
pub fn guarded<T>(
    path: &Path,
    load: impl FnOnce() -> Result<T, tokenizers::Error>,
) -> Result<T, Error> {
    let problem = match catch_unwind(AssertUnwindSafe(load)) {
        Ok(Ok(loaded)) => return Ok(loaded),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the tokenizer's components contradict each other".into(),
    };
    Err(Error::Malformed { path: path.into(), problem })
}
