//! Embedding rows of hot keys in device memory: a cache in sets of twelve.
//!
//! Every key of 64 bits can be in it: which slots are used stands in a set's head, not in the keys.
//! A cache that evicts has a key in one set, where the key that was asked for longest ago gives
//! way. One that is resident keeps every row it was given: keys whose set is full go on to another,
//! and it is made large enough for that to be rare.
//!
//! Roofline of a query: 128 bytes of a set, a row read and a row written for each key, and 32
//! bytes for the stamp of its last use.

pub(crate) mod cuda;
pub(crate) mod reference;

pub use cuda::{CudaHotCache, HostHits, QueryArgs, WriteArgs};
pub use reference::HostHotCache;

/// Slots of a set.
pub const HOT_CACHE_WAYS: usize = 12;

/// Bytes of a set without its rows.
pub(crate) const SET_BYTES: usize = 128;

/// Of the slots of a resident cache, how many are used when it has all rows: fuller, keys would
/// often be in a second or third set; emptier, memory would be wasted. Where rows in host memory
/// set the pace, more sets do not matter, and rows that lie close together are read faster.
const RESIDENT_LOAD: f64 = 0.9;
const HOST_LOAD: f64 = 0.95;

/// Queries after which the ages of stamps are bounded: less than half of what 16 bits count.
pub(crate) const AGING_QUERIES: u32 = 0x4000;

/// How large a hot cache is, and where its rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotCacheShape {
    /// A prime.
    sets: u32,
    dim: usize,
    /// Of the slots of each set, how many have their rows in device memory; the others in host
    /// memory that the device reads.
    device_ways: usize,
    /// Otherwise it is resident.
    pub(in crate::gather) evicts: bool,
}

impl HotCacheShape {
    /// For at least so many rows; what does not fit evicts.
    pub fn evicting(rows: usize, dim: usize) -> Option<Self> {
        Self::of_slots(rows, dim, true)
    }

    /// For exactly so many rows, of which none is evicted, with at most so many bytes of rows in
    /// device memory.
    pub fn resident(rows: usize, dim: usize, device_row_bytes: usize) -> Option<Self> {
        let at_load = |load: f64| Self::of_slots((rows as f64 / load).ceil() as usize, dim, false);
        let whole = at_load(RESIDENT_LOAD)?;
        if whole.device_row_bytes() <= device_row_bytes {
            return Some(whole);
        }
        let dense = at_load(HOST_LOAD)?;
        let way_bytes = dense.row_bytes() * dense.sets as usize;
        let device_ways = (device_row_bytes / way_bytes.max(1)).min(HOT_CACHE_WAYS);
        Some(HotCacheShape { device_ways, ..dense })
    }

    /// `None` where sets or bytes cannot be counted.
    fn of_slots(least: usize, dim: usize, evicts: bool) -> Option<Self> {
        let sets = least.div_ceil(HOT_CACHE_WAYS).max(3);
        let sets = prime_from(u32::try_from(sets).ok()?)?;
        let row_bytes = dim.checked_mul(size_of::<f32>())?;
        (sets as usize).checked_mul(HOT_CACHE_WAYS)?.checked_mul(row_bytes)?;
        Some(HotCacheShape { sets, dim, device_ways: HOT_CACHE_WAYS, evicts })
    }

    pub fn sets(&self) -> u32 {
        self.sets
    }

    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Rows it has room for.
    pub fn slots(&self) -> usize {
        self.sets as usize * HOT_CACHE_WAYS
    }

    pub fn row_bytes(&self) -> usize {
        self.dim * size_of::<f32>()
    }

    /// Bytes of rows in device memory.
    pub fn device_row_bytes(&self) -> usize {
        self.sets as usize * self.device_ways * self.row_bytes()
    }

    /// Bytes of rows in host memory that the device reads.
    pub fn host_row_bytes(&self) -> usize {
        self.slots() * self.row_bytes() - self.device_row_bytes()
    }

    /// Bytes of device memory, with the sets.
    pub fn device_bytes(&self) -> usize {
        self.sets as usize * SET_BYTES + self.device_row_bytes()
    }
}

/// What a write does with a key that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheWrite {
    /// It takes a free slot of its set, or that of the key that was asked for longest ago.
    Evict,
    /// It takes a free slot of its set, or of another; nothing is evicted.
    Resident,
    /// Nothing: only keys that are there get their new rows, and their age stays.
    Present,
}

/// The smallest prime that is not below `least`, which is at least 3.
fn prime_from(least: u32) -> Option<u32> {
    let is_prime = |number: &u32| {
        let mut divisors =
            (3..).step_by(2).take_while(|by| u64::from(*by).pow(2) <= (*number).into());
        divisors.all(|by: u32| !number.is_multiple_of(by))
    };
    (least..=u32::MAX).filter(|number| !number.is_multiple_of(2)).find(is_prime)
}

/// Spreads keys: close ids end far apart. (Evensen's rrxmrrxmsx_0.)
pub(crate) fn mix(key: i64) -> u64 {
    let mut x = key.cast_unsigned();
    x ^= x.rotate_right(25) ^ x.rotate_right(50);
    x = x.wrapping_mul(0xA24B_AED4_963E_E407);
    x ^= x.rotate_right(24) ^ x.rotate_right(49);
    x = x.wrapping_mul(0x9FB2_1C65_1E98_DF25);
    x ^ x >> 28
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_a_prime_and_hold_what_was_asked_for() {
        for rows in [0, 1, 12, 64, 100, 1_000, 65_537, 10_000_000] {
            let shape = HotCacheShape::evicting(rows, 16).unwrap();
            assert!(shape.slots() >= rows.max(1), "{rows}: {shape:?}");
            assert_eq!(prime_from(shape.sets()), Some(shape.sets()));
            assert_eq!(shape.host_row_bytes(), 0);
        }
        assert_eq!([3, 4, 8, 90].map(prime_from), [3, 5, 11, 97].map(Some));
        assert!(HotCacheShape::evicting(usize::MAX, 16).is_none());
        assert!(HotCacheShape::evicting(1 << 30, usize::MAX / 2).is_none());
    }

    #[test]
    fn rows_beyond_the_budget_are_in_host_memory() {
        let all = HotCacheShape::resident(100_000, 64, usize::MAX).unwrap();
        assert_eq!(all.host_row_bytes(), 0);
        assert!(all.slots() as f64 >= 100_000.0 / RESIDENT_LOAD);
        let half = HotCacheShape::resident(100_000, 64, all.device_row_bytes() / 2).unwrap();
        assert!(half.device_row_bytes() <= all.device_row_bytes() / 2);
        assert!((0.4..0.6).contains(&(half.host_row_bytes() as f64 / half.slots() as f64 / 256.0)));
        let none = HotCacheShape::resident(100_000, 64, 0).unwrap();
        assert_eq!(none.device_row_bytes(), 0);
    }
}
