//! Where Terrace keeps what it can get or compute again.

use std::path::PathBuf;

/// `$XDG_CACHE_HOME/terrace`, or `~/.cache/terrace`; `None` where neither is known.
pub fn cache_folder() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("terrace"))
}
