//! The hot cache in host memory: the specification of the one on a GPU, and the one that serves
//! where there is none.

use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use terrace_device::{Buffer, DType};

use super::{AGING_QUERIES, CacheWrite, HOT_CACHE_WAYS, HotCacheShape, mix};
use crate::error::Error;

/// Slots that are filled before the next set is looked at, as in `hot_cache_write.cu`.
const EASY_SLOTS: u32 = 9;
const OLDEST: u16 = 0x7fff;

/// Queries may run beside each other; writes may not.
pub struct HostHotCache {
    shape: HotCacheShape,
    sets: Vec<Set>,
    /// f32 `[sets, ways, dim]`
    rows: Buffer,
    /// Counts queries.
    now: AtomicU32,
}

/// As large as two lines of the processor's caches.
#[derive(Default)]
#[repr(align(64))]
pub(in crate::gather) struct Set {
    keys: [i64; HOT_CACHE_WAYS],
    stamps: [AtomicU16; HOT_CACHE_WAYS],
    /// A bit for each slot.
    used: u16,
    /// Whether keys went on from here to another set.
    is_marked: bool,
}

/// The sets a key may be in.
#[derive(Clone, Copy)]
struct Probe {
    set: u32,
    step: u32,
}

impl HostHotCache {
    pub fn new(shape: HotCacheShape) -> Result<Self, Error> {
        let sets = (0..shape.sets).map(|_| Set::default()).collect();
        let bytes = shape.slots() * shape.dim * size_of::<f32>();
        let rows = Buffer::zeroed(bytes, "rows of a hot cache")?;
        Ok(HostHotCache { shape, sets, rows, now: AtomicU32::new(0) })
    }

    pub fn shape(&self) -> HotCacheShape {
        self.shape
    }

    /// Copies the rows of keys that are there; the others get the default value, and `missed` gets
    /// their indices · rows: `[keys, dim]`
    pub fn query(&self, keys: &[i64], default_value: f32, rows: &mut [f32], missed: &mut Vec<u32>) {
        let dim = self.shape.dim;
        assert_eq!(rows.len(), keys.len() * dim, "rows of a query");
        let now = self.begin_query();
        for (index, key) in keys.iter().enumerate() {
            let row = &mut rows[index * dim..][..dim];
            match self.hit(*key, now) {
                Some(found) => row.copy_from_slice(found),
                None => {
                    row.fill(default_value);
                    missed.push(index as u32);
                }
            }
        }
    }

    /// Puts rows in; how many found no slot · rows: `[keys, dim]`
    pub fn write(&mut self, keys: &[i64], rows: &[f32], how: CacheWrite) -> usize {
        let dim = self.shape.dim;
        assert_eq!(rows.len(), keys.len() * dim, "rows of a write");
        let (mut refused, now) = (0, *self.now.get_mut() as u16);
        for (key, row) in keys.iter().zip(rows.chunks_exact(dim)) {
            let found = self.find(*key);
            let place = match how {
                CacheWrite::Present => found,
                CacheWrite::Evict => found.or_else(|| Some(self.evicted_slot(*key))),
                CacheWrite::Resident => found.or_else(|| self.free_slot(*key)),
            };
            let Some((set, slot)) = place else {
                refused += usize::from(how == CacheWrite::Resident);
                continue;
            };
            let start = (set as usize * HOT_CACHE_WAYS + slot) * dim;
            let mut rows = self.rows.view_mut(DType::F32, [start + dim]);
            rows.as_mut_slice::<f32>()[start..].copy_from_slice(row);
            let set = &mut self.sets[set as usize];
            set.keys[slot] = *key;
            set.used |= 1 << slot;
            if how != CacheWrite::Present {
                *set.stamps[slot].get_mut() = now;
            }
        }
        refused
    }

    /// A query begins; what its hits are stamped with. A stamp has 16 bits: what is very old
    /// becomes a bounded age in time.
    pub(in crate::gather) fn begin_query(&self) -> u16 {
        let now = self.now.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if now.is_multiple_of(AGING_QUERIES) {
            for stamp in self.sets.iter().flat_map(|set| &set.stamps) {
                if (now as u16).wrapping_sub(stamp.load(Ordering::Relaxed)) > OLDEST {
                    stamp.store((now as u16).wrapping_sub(OLDEST), Ordering::Relaxed);
                }
            }
        }
        now as u16
    }

    /// The row of a key that is there, which a query asks for.
    #[inline(always)]
    pub(in crate::gather) fn hit(&self, key: i64, now: u16) -> Option<&[f32]> {
        let (set, slot) = self.find(key)?;
        if self.shape.evicts {
            self.sets[set as usize].stamps[slot].store(now, Ordering::Relaxed);
        }
        Some(self.row(set, slot))
    }

    /// The set that a key is looked for first.
    #[inline]
    pub(in crate::gather) fn first_set(&self, key: i64) -> &Set {
        &self.sets[self.first_probe(key).set as usize]
    }

    /// The keys of some sets.
    pub fn keys_of(&self, sets: Range<u32>, keys: &mut Vec<i64>) {
        for set in &self.sets[sets.start as usize..sets.end as usize] {
            keys.extend(set.slots().map(|slot| set.keys[slot]));
        }
    }

    pub fn clear(&mut self) {
        self.sets.fill_with(Set::default);
    }

    /// Set and slot of a key.
    #[inline(always)]
    fn find(&self, key: i64) -> Option<(u32, usize)> {
        let mut probe = self.first_probe(key);
        for _ in 0..self.shape.sets {
            let set = &self.sets[probe.set as usize];
            if let Some(slot) = set.slot_of(key) {
                return Some((probe.set, slot));
            }
            if !set.is_marked {
                return None;
            }
            probe = self.next_probe(probe);
        }
        None
    }

    fn row(&self, set: u32, slot: usize) -> &[f32] {
        let bytes = self.shape.dim * size_of::<f32>();
        let row = &self.rows.bytes()[(set as usize * HOT_CACHE_WAYS + slot) * bytes..][..bytes];
        // SAFETY: all bits are numbers, and a buffer's bytes are aligned for them.
        let (_, row, _) = unsafe { row.align_to() };
        row
    }

    /// Of a key's only set: a free one, or that of the key that was asked for longest ago.
    fn evicted_slot(&self, key: i64) -> (u32, usize) {
        let Probe { set: number, .. } = self.first_probe(key);
        let set = &self.sets[number as usize];
        let now = self.now.load(Ordering::Relaxed) as u16;
        let age = |slot: usize| now.wrapping_sub(set.stamps[slot].load(Ordering::Relaxed));
        let free = (0..HOT_CACHE_WAYS).find(|slot| set.used >> slot & 1 == 0);
        let oldest = (0..HOT_CACHE_WAYS).rev().max_by_key(|slot| age(*slot));
        (number, free.or(oldest).expect("a set has slots"))
    }

    /// Of a key that is in no set. Sets that are passed are marked.
    fn free_slot(&mut self, key: i64) -> Option<(u32, usize)> {
        let mut probe = self.first_probe(key);
        for tried in 0..self.shape.sets {
            let next = self.next_probe(probe);
            let [count, count_of_next] =
                [probe, next].map(|probe| self.sets[probe.set as usize].used.count_ones());
            let is_crowded = tried == 0 && count >= EASY_SLOTS && count_of_next < count;
            let set = &mut self.sets[probe.set as usize];
            let free = (0..HOT_CACHE_WAYS).find(|slot| set.used >> slot & 1 == 0);
            match free {
                Some(slot) if !is_crowded => return Some((probe.set, slot)),
                _ => set.is_marked = true,
            }
            probe = next;
        }
        None
    }

    fn first_probe(&self, key: i64) -> Probe {
        let hash = mix(key);
        let sets = u64::from(self.shape.sets);
        let set = (u128::from(hash) * u128::from(sets)) >> 64;
        let step = ((hash & u64::from(u32::MAX)) * (sets - 1)) >> 32;
        Probe { set: set as u32, step: step as u32 + 1 }
    }

    fn next_probe(&self, probe: Probe) -> Probe {
        let next = (u64::from(probe.set) + u64::from(probe.step)) % u64::from(self.shape.sets);
        Probe { set: next as u32, ..probe }
    }
}

impl Set {
    /// Compares all slots at once: a branch on each would often go where it was not expected.
    #[inline(always)]
    fn slot_of(&self, key: i64) -> Option<usize> {
        let bit = |slot: usize| u16::from(self.keys[slot] == key) << slot;
        let found = (0..HOT_CACHE_WAYS).fold(0, |bits, slot| bits | bit(slot)) & self.used;
        (found != 0).then(|| found.trailing_zeros() as usize)
    }

    fn slots(&self) -> impl Iterator<Item = usize> {
        let used = self.used;
        (0..HOT_CACHE_WAYS).filter(move |slot| used >> slot & 1 == 1)
    }
}

/// The first set of each key, for tests that must know who meets whom.
pub(crate) fn first_set(shape: HotCacheShape, key: i64) -> u32 {
    ((u128::from(mix(key)) * u128::from(shape.sets)) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::random::SplitMix;

    fn row(key: i64, version: i64) -> [f32; 2] {
        [key as f32, version as f32]
    }

    /// As many keys as asked for, all of one set.
    fn mates(shape: HotCacheShape, count: usize) -> Vec<i64> {
        let set = first_set(shape, 1);
        (1..).filter(|key| first_set(shape, *key) == set).take(count).collect()
    }

    #[test]
    fn the_key_asked_for_longest_ago_gives_way() {
        let shape = HotCacheShape::evicting(64, 2).unwrap();
        let mut cache = HostHotCache::new(shape).expect("a small cache");
        let keys = mates(shape, 15);
        let asked = |cache: &mut HostHotCache, key: i64| {
            let (mut rows, mut missed) = ([0.0; 2], Vec::new());
            cache.query(&[key], -1.0, &mut rows, &mut missed);
            missed.is_empty()
        };
        for key in &keys[..12] {
            cache.write(&[*key], &row(*key, 0), CacheWrite::Evict);
            assert!(asked(&mut cache, *key));
        }
        assert!(asked(&mut cache, keys[0]));
        for (new, gone) in [(12, 1), (13, 2), (14, 3)] {
            cache.write(&[keys[new]], &row(keys[new], 0), CacheWrite::Evict);
            assert!(!asked(&mut cache, keys[gone]), "{gone}");
            assert!(asked(&mut cache, keys[new]) && asked(&mut cache, keys[0]));
        }
    }

    #[test]
    fn an_old_key_stays_old_when_stamps_come_round() {
        let shape = HotCacheShape::evicting(64, 2).unwrap();
        let mut cache = HostHotCache::new(shape).expect("a small cache");
        let keys = mates(shape, 13);
        for key in &keys[..12] {
            cache.write(&[*key], &row(*key, 0), CacheWrite::Evict);
        }
        let (mut rows, mut missed) = (vec![0.0; 22], Vec::new());
        // One round of 16 bits and a little: unbounded, the first key's age would be a little.
        for _ in 0..0x1_0010 {
            cache.query(&keys[1..12], 0.0, &mut rows, &mut missed);
        }
        cache.write(&keys[12..], &row(keys[12], 0), CacheWrite::Evict);
        cache.query(&keys[1..12], 0.0, &mut rows, &mut missed);
        assert!(missed.is_empty());
    }

    #[test]
    fn a_resident_cache_has_every_row_whatever_the_keys() {
        let mut random = SplitMix::new(7);
        for rows in [1usize, 5, 40, 1_000, 20_000] {
            let shape = HotCacheShape::resident(rows, 2, usize::MAX).unwrap();
            let mut cache = HostHotCache::new(shape).expect("a small cache");
            let mut keys = vec![i64::MAX, i64::MIN, 0, -1];
            keys.extend((0..rows).map(|_| random.bits().cast_signed()));
            keys.truncate(rows);
            let all: Vec<f32> = keys.iter().flat_map(|key| row(*key, 1)).collect();
            assert_eq!(cache.write(&keys, &all, CacheWrite::Resident), 0);
            let (mut found, mut missed) = (vec![0.0; all.len()], Vec::new());
            cache.query(&keys, 0.0, &mut found, &mut missed);
            assert!(missed.is_empty() && found == all, "{rows} rows");
            let mut there = Vec::new();
            cache.keys_of(0..shape.sets(), &mut there);
            there.sort_unstable();
            keys.sort_unstable();
            assert_eq!(there, keys);
        }
    }

    #[test]
    fn a_full_resident_cache_refuses_and_loses_nothing() {
        let shape = HotCacheShape::resident(1, 2, usize::MAX).unwrap();
        let mut cache = HostHotCache::new(shape).expect("a small cache");
        let keys: Vec<i64> = (0..shape.slots() as i64 + 5).collect();
        let rows: Vec<f32> = keys.iter().flat_map(|key| row(*key, 0)).collect();
        assert_eq!(cache.write(&keys, &rows, CacheWrite::Resident), 5);
        let (mut found, mut missed) = (vec![0.0; rows.len()], Vec::new());
        cache.query(&keys, 0.0, &mut found, &mut missed);
        assert_eq!(missed.len(), 5, "every set is marked, and the look-up ends");
    }

    /// What is found is what was last written, and only new rows of present keys are taken.
    #[test]
    fn it_gives_what_was_last_written() {
        let mut random = SplitMix::new(11);
        let shape = HotCacheShape::evicting(100, 2).unwrap();
        let mut cache = HostHotCache::new(shape).expect("a small cache");
        let mut written: HashMap<i64, i64> = HashMap::new();
        for version in 0..4_000 {
            let key = random.below(300) as i64;
            match random.below(3) {
                0 => {
                    cache.write(&[key], &row(key, version), CacheWrite::Evict);
                    written.insert(key, version);
                }
                1 => {
                    cache.write(&[key], &row(key, version), CacheWrite::Present);
                    if cache.find(key).is_some() {
                        written.insert(key, version);
                    }
                }
                _ => {
                    let (mut rows, mut missed) = ([0.0; 2], Vec::new());
                    cache.query(&[key], -1.0, &mut rows, &mut missed);
                    match missed.is_empty() {
                        true => assert_eq!(rows, row(key, written[&key])),
                        false => assert_eq!(rows, [-1.0; 2]),
                    }
                }
            }
        }
    }
}
