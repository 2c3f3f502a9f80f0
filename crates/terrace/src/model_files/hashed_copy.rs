//! A copy that knows the SHA-256 of what passed through it.

use std::io::{self, Read, Write};

use indicatif::ProgressBar;
use sha2::{Digest, Sha256};

const CHUNK_BYTES: usize = 1 << 20;

/// Copies all of `from` to `to`, and returns the SHA-256 in hexadecimal digits.
pub fn hashed_copy(
    mut from: impl Read,
    mut to: impl Write,
    bar: &ProgressBar,
) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        hasher.update(&chunk[..read]);
        to.write_all(&chunk[..read])?;
        bar.inc(read as u64);
    }
    bar.finish_and_clear();
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
