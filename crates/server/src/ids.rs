//! Names for responses and requests: unique, not secret.

use std::hash::{BuildHasher, Hasher, RandomState};

/// `prefix` and 128 random bits. `RandomState` is seeded by the operating system and differs
/// at each call.
pub fn unique(prefix: &str) -> String {
    let bits = || RandomState::new().build_hasher().finish();
    format!("{prefix}{:016x}{:016x}", bits(), bits())
}

/// Nine letters and digits: some models' templates take a call's name in no other form.
pub fn tool_call() -> String {
    unique("").chars().take(9).collect()
}
