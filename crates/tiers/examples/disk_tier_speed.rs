//! How fast the disk tier puts and gets records of two lengths, on the disk of a folder:
//!
//!     cargo run --release -p terrace-tiers --example disk_tier_speed -- path/to/folder
//!
//! What stands there is overwritten. `benches/tiers.md` has results.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Advice, fadvise};
use terrace_cache::PageKey;
use terrace_cache::placement::PlacementRule;
use terrace_tiers::record::{self, HEADER_BYTES, RecordHeader};
use terrace_tiers::{DiskTier, DiskTierConfig, PageTier, TierRecord, TierRetention};

const PAGE_BYTES: [usize; 2] = [2 << 20, 368 << 10];
const ALL_BYTES: usize = 4 << 30;
const BATCH_BYTES: usize = 32 << 20;
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args().nth(1).ok_or("give it a folder on the disk")?.into();
    for page_bytes in PAGE_BYTES {
        let config = DiskTierConfig {
            folder: folder.clone(),
            budget_bytes: 2 * ALL_BYTES as u64,
            record_bytes: HEADER_BYTES + page_bytes,
            placement: PlacementRule::Lru,
        };
        println!("pages of {page_bytes} bytes, {ALL_BYTES} bytes in all, MB/s:");
        let tier = DiskTier::open(config)?;
        tier.remove_many(&tier.listed().unwrap_or_default())?;
        for round in 0..ROUNDS {
            measure(&tier, &folder, page_bytes, round)?;
        }
    }
    Ok(())
}

fn measure(
    tier: &DiskTier,
    folder: &Path,
    page_bytes: usize,
    round: usize,
) -> Result<(), Box<dyn Error>> {
    let pages = ALL_BYTES / page_bytes;
    let keys: Vec<PageKey> = (0..pages).map(|page| key(round, page)).collect();
    let batch = BATCH_BYTES / page_bytes;
    let page: Vec<u8> = (0..page_bytes).map(|byte| (byte * 31) as u8).collect();
    let records: Vec<Vec<u8>> =
        keys.iter().take(batch).map(|key| record::encode(&header(key), &page)).collect();

    let begun = Instant::now();
    for (number, keys) in keys.chunks(batch).enumerate() {
        // Encoding is timed apart: a record differs from the next in its header alone.
        let encoded: Vec<_> = match number {
            0 => records.clone(),
            _ => keys.iter().map(|key| record::encode(&header(key), &page)).collect(),
        };
        let retention = TierRetention::default();
        let records: Vec<_> = keys
            .iter()
            .zip(&encoded)
            .map(|(key, bytes)| TierRecord { key: *key, bytes, retention })
            .collect();
        let stored = tier.put_many(&records)?;
        assert!(stored.kept.iter().all(|&kept| kept), "the budget is large enough");
    }
    let put = begun.elapsed();
    tier.sync()?;
    let synced = begun.elapsed();
    forget_cached(folder)?;
    let cold = get_all(tier, &keys, batch, page_bytes)?;
    let warm = get_all(tier, &keys, batch, page_bytes)?;
    tier.remove_many(&keys)?;
    let speed = |seconds: f64| (pages * page_bytes) as f64 / seconds / 1e6;
    println!(
        "  put {:6.0}   put and sync {:6.0}   get, cold {:6.0}   get, cached {:6.0}",
        speed(put.as_secs_f64()),
        speed(synced.as_secs_f64()),
        speed(cold),
        speed(warm),
    );
    Ok(())
}

/// Seconds until all records are decoded and copied, as into host memory.
fn get_all(
    tier: &DiskTier,
    keys: &[PageKey],
    batch: usize,
    page_bytes: usize,
) -> Result<f64, Box<dyn Error>> {
    let mut host = vec![0; batch * page_bytes];
    let begun = Instant::now();
    for keys in keys.chunks(batch) {
        let mut found = 0;
        tier.get_many(keys, &mut |index, bytes| {
            let page = record::decode(bytes, &header(&keys[index]), page_bytes).expect("whole");
            host[index * page_bytes..][..page_bytes].copy_from_slice(page);
            found += 1;
        })?;
        assert_eq!(found, keys.len(), "records found");
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn forget_cached(folder: &Path) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(folder)? {
        fadvise(File::open(entry?.path())?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

fn key(round: usize, page: usize) -> PageKey {
    let mut bytes = [round as u8; 32];
    bytes[..8].copy_from_slice(&(page as u64).to_le_bytes());
    PageKey::from_bytes(bytes)
}

fn header(key: &PageKey) -> RecordHeader {
    RecordHeader { model: [7; 32], key: *key }
}
