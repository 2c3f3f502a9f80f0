//! A level of your own for pages that have left memory, without forking Terrace.
//!
//!     cargo run --example custom_page_tier -- path/to/folder
//!
//! The tier is `file_tier.rs`; this puts a page into it and gets it back, the way an engine does:
//! as a record, behind a breaker.

mod file_tier;

use std::error::Error;
use std::path::PathBuf;

use terrace_cache::PageKey;
use terrace_tiers::record::{self, RecordHeader};
use terrace_tiers::{BreakerConfig, GuardedTier, TierRecord, TierRetention};

use file_tier::FileTier;

const PAGE: [u8; 4096] = [42; 4096];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("give it a folder")?;
    let found = put_and_get(folder.into(), |_| Ok(()))?;
    println!("{}", if found { "the page came back" } else { "a miss" });
    Ok(())
}

/// Whether a page comes back from the folder, after `meanwhile` had its way with it.
fn put_and_get(
    folder: PathBuf,
    meanwhile: impl FnOnce(&PathBuf) -> std::io::Result<()>,
) -> Result<bool, Box<dyn Error>> {
    std::fs::create_dir_all(&folder)?;
    let tier = FileTier { folder: folder.clone() };
    let tier = GuardedTier::new(Box::new(tier), BreakerConfig::default());
    let header = RecordHeader { model: [1; 32], key: PageKey::from_bytes([2; 32]) };
    let bytes = record::encode(&header, &PAGE);
    let retention = TierRetention::default();
    tier.put_many(&[TierRecord { key: header.key, bytes: &bytes, retention }])?;
    meanwhile(&folder)?;
    let mut is_found = false;
    tier.get_many(&[header.key], &mut |_, bytes| {
        is_found = record::decode(bytes, &header, PAGE.len()) == Ok(&PAGE[..]);
    })?;
    Ok(is_found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(meanwhile: impl FnOnce(&PathBuf) -> std::io::Result<()>, want: bool) {
        let folder = tempfile::tempdir().expect("a folder");
        let found = put_and_get(folder.path().into(), meanwhile).expect("a disk");
        assert_eq!(found, want);
    }

    #[test]
    fn a_page_comes_back_unless_its_file_is_gone_or_cut() {
        let file = |folder: &PathBuf| folder.join("02".repeat(32));
        check(|_| Ok(()), true);
        check(|folder| std::fs::remove_file(file(folder)), false);
        check(|folder| std::fs::write(file(folder), "short"), false);
    }
}
