//! Pages that tests put into tiers, each known by a number.

use std::collections::BTreeMap;

use terrace_cache::PageKey;
use terrace_testkit::Rng;
use terrace_tiers::record::{self, HEADER_BYTES, RecordHeader};
use terrace_tiers::{PageTier, Stored, TierError, TierRecord, TierRetention};

pub const PAGE_BYTES: usize = 9000;
pub const RECORD_BYTES: usize = HEADER_BYTES + PAGE_BYTES;

pub fn key(page: u64) -> PageKey {
    let mut rng = Rng::new(page);
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.number().to_le_bytes()));
    PageKey::from_bytes(bytes)
}

pub fn keys(pages: impl IntoIterator<Item = u64>) -> Vec<PageKey> {
    pages.into_iter().map(key).collect()
}

pub fn header(page: u64) -> RecordHeader {
    RecordHeader { model: [3; 32], key: key(page) }
}

pub fn page(page: u64) -> Vec<u8> {
    let mut rng = Rng::new(!page);
    (0..PAGE_BYTES).map(|_| rng.number() as u8).collect()
}

pub fn record_of(number: u64) -> Vec<u8> {
    record::encode(&header(number), &page(number))
}

pub fn put(tier: &dyn PageTier, pages: &[u64]) -> Result<Stored, TierError> {
    put_with(tier, pages, TierRetention::default())
}

pub fn put_with(
    tier: &dyn PageTier,
    pages: &[u64],
    retention: TierRetention,
) -> Result<Stored, TierError> {
    let records: Vec<_> = pages.iter().map(|&page| record_of(page)).collect();
    let records = records.iter().zip(pages);
    let records = records.map(|(bytes, &page)| TierRecord { key: key(page), bytes, retention });
    tier.put_many(&records.collect::<Vec<_>>())
}

/// Which of the pages a tier gives, all of them right.
#[track_caller]
pub fn get(tier: &dyn PageTier, pages: &[u64]) -> Result<Vec<bool>, TierError> {
    let mut found = BTreeMap::new();
    let keys = keys(pages.iter().copied());
    tier.get_many(&keys, &mut |index, bytes| {
        let earlier = found.insert(index, bytes.to_vec());
        assert!(earlier.is_none(), "page {} was given twice", pages[index]);
    })?;
    for (&index, bytes) in &found {
        let decoded = record::decode(bytes, &header(pages[index]), PAGE_BYTES);
        assert_eq!(decoded, Ok(&page(pages[index])[..]), "page {}", pages[index]);
    }
    Ok((0..pages.len()).map(|index| found.contains_key(&index)).collect())
}
