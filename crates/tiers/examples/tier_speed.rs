//! How fast a tier puts and gets pages of two sizes:
//!
//!     cargo run --release -p terrace-tiers --example tier_speed -- disk path/to/folder
//!     cargo run --release -p terrace-tiers --example tier_speed -- redis 127.0.0.1:7000
//!
//! What the tier holds under the same keys is overwritten. `benches/tiers.md` has results.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use terrace_cache::PageKey;
use terrace_cache::placement::PlacementRule;
use terrace_tiers::record::{self, HEADER_BYTES, RecordHeader};
use terrace_tiers::{
    DiskTier, DiskTierConfig, PageTier, RedisTier, RedisTierConfig, TierRecord, TierRetention,
};

const PAGE_BYTES: [usize; 2] = [2 << 20, 368 << 10];
const DISK_BYTES: usize = 4 << 30;
const REDIS_BYTES: usize = 1 << 30;
const BATCH_BYTES: usize = 64 << 20;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    for page_bytes in PAGE_BYTES {
        let record_bytes = HEADER_BYTES + page_bytes;
        match words.split_first() {
            Some((kind, [folder])) if kind == "disk" => {
                let config = DiskTierConfig {
                    folder: Path::new(folder).to_owned(),
                    budget_bytes: 2 * DISK_BYTES as u64,
                    record_bytes,
                    placement: PlacementRule::Lru,
                };
                measure(&DiskTier::open(config)?, page_bytes, DISK_BYTES)?;
            }
            Some((kind, nodes)) if kind == "redis" => {
                let config = RedisTierConfig::new(nodes.to_vec(), record_bytes);
                measure(&RedisTier::connect(config)?, page_bytes, REDIS_BYTES)?;
            }
            _ => return Err("say: disk path/to/folder, or: redis host:port".into()),
        }
    }
    Ok(())
}

fn measure(tier: &dyn PageTier, page_bytes: usize, all_bytes: usize) -> Result<(), Box<dyn Error>> {
    println!("pages of {page_bytes} bytes, {all_bytes} bytes in all, MB/s:");
    let (pages, batch) = (all_bytes / page_bytes, BATCH_BYTES / page_bytes);
    let keys: Vec<PageKey> = (0..pages).map(key).collect();
    tier.remove_many(&keys)?;
    for _ in 0..ROUNDS {
        let put = put_all(tier, &keys, batch, page_bytes)?;
        let begun = Instant::now();
        tier.sync()?;
        let synced = put + begun.elapsed();
        let got = get_all(tier, &keys, batch, page_bytes)?;
        tier.remove_many(&keys)?;
        let [put, synced, got] =
            [put, synced, got].map(|spent| (pages * page_bytes) as f64 / spent.as_secs_f64() / 1e6);
        println!("  put {put:6.0}   put and sync {synced:6.0}   get {got:6.0}");
    }
    Ok(())
}

/// The time in `put_many`; encoding is whoever calls it.
fn put_all(
    tier: &dyn PageTier,
    keys: &[PageKey],
    batch: usize,
    page_bytes: usize,
) -> Result<Duration, Box<dyn Error>> {
    let page: Vec<u8> = (0..page_bytes).map(|byte| (byte * 31) as u8).collect();
    let retention = TierRetention::default();
    let mut spent = Duration::ZERO;
    for keys in keys.chunks(batch) {
        let encoded: Vec<_> = keys.iter().map(|key| record::encode(&header(key), &page)).collect();
        let records = keys.iter().zip(&encoded);
        let records = records.map(|(key, bytes)| TierRecord { key: *key, bytes, retention });
        let records: Vec<_> = records.collect();
        let begun = Instant::now();
        let stored = tier.put_many(&records)?;
        spent += begun.elapsed();
        if stored.kept.contains(&false) {
            return Err("the tier has no room for all pages".into());
        }
    }
    Ok(spent)
}

/// The time until all pages are decoded and copied, as into host memory.
fn get_all(
    tier: &dyn PageTier,
    keys: &[PageKey],
    batch: usize,
    page_bytes: usize,
) -> Result<Duration, Box<dyn Error>> {
    let mut host = vec![0; batch * page_bytes];
    let mut found = 0;
    let begun = Instant::now();
    for keys in keys.chunks(batch) {
        tier.get_many(keys, &mut |index, bytes| {
            let page = record::decode(bytes, &header(&keys[index]), page_bytes).expect("whole");
            host[index * page_bytes..][..page_bytes].copy_from_slice(page);
            found += 1;
        })?;
    }
    let spent = begun.elapsed();
    if found != keys.len() {
        return Err(format!("{found} of {} pages were found", keys.len()).into());
    }
    Ok(spent)
}

fn key(page: usize) -> PageKey {
    let mut bytes = [9; 32];
    bytes[..8].copy_from_slice(&(page as u64).to_le_bytes());
    PageKey::from_bytes(bytes)
}

fn header(key: &PageKey) -> RecordHeader {
    RecordHeader { model: [7; 32], key: *key }
}
