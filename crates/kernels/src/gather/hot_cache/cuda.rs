//! The hot cache in device memory, and the launches of `hot_cache_query.cu`, `hot_cache_host.cu`,
//! `hot_cache_write.cu` and `hot_cache_sets.cu`.
//!
//! One cache serves many streams at once: queries, writes and walks of any of them may run beside
//! each other, and no query gives half of a row. What a stream does comes in its own order alone.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use terrace_device::cuda::{CudaDevice, PinnedBuffer};
use terrace_device::{Buffer, DType, Device, View, ViewMut};

use super::{AGING_QUERIES, CacheWrite, HOT_CACHE_WAYS, HotCacheShape, SET_BYTES};
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;
use crate::gather::by_width::ByWidth;

pub struct CudaHotCache {
    shape: HotCacheShape,
    /// u8 `[sets, SET_BYTES]`
    sets: Buffer,
    /// f32 `[sets, device_ways, dim]`
    rows: Buffer,
    /// f32 `[sets, ways - device_ways, dim]`
    host_rows: Option<PinnedBuffer>,
    /// Counts queries of all streams.
    queries: AtomicU32,
}

/// A query of one stream.
pub struct QueryArgs<'a> {
    /// i64 `[keys]`
    pub keys: View<'a>,
    /// i32 `[1]`: how many of them there are; `None`: all
    pub unique: Option<View<'a>>,
    pub default_value: f32,
    /// f32 `[keys, dim]`
    pub rows: ViewMut<'a>,
    /// i64 `[keys]`
    pub missed_keys: ViewMut<'a>,
    /// i32 `[keys]`: where among the keys
    pub missed_at: ViewMut<'a>,
    /// i32 `[1]`: how many; zero before
    pub missed: ViewMut<'a>,
    /// i32 `[1]`: set to zero, for the stream's next query
    pub next_missed: ViewMut<'a>,
    /// For caches with rows in host memory: where a large query puts these in order. Without them
    /// it reads each as it comes, which is slower.
    pub host_hits: Option<&'a mut HostHits>,
}

/// Where queries of one stream put hits in order whose rows are in host memory.
pub struct HostHits {
    keys_most: usize,
    /// i64 `[keys]`, as they are found and in the order of their addresses
    list: Buffer,
    ordered: Buffer,
    /// i32 `[HOST_BUCKETS]`, zero between queries
    buckets: Buffer,
    /// i32 `[2]`: how many are listed, zero between queries, and how many are in order
    counts: Buffer,
}

impl HostHits {
    /// For queries of at most so many keys.
    pub fn new(device: &Arc<CudaDevice>, keys_most: usize) -> Result<Self, Error> {
        let memory = Device::Cuda(Arc::clone(device));
        let take = |bytes| memory.take(bytes, "hits of a hot cache in host memory");
        Ok(HostHits {
            keys_most,
            list: take(keys_most * size_of::<u64>())?,
            ordered: take(keys_most * size_of::<u64>())?,
            buckets: take(HOST_BUCKETS * size_of::<u32>())?,
            counts: take(2 * size_of::<u32>())?,
        })
    }

    fn params(&self, sets: u32) -> HostHitsParams {
        let address = |buffer: &Buffer| buffer.view(DType::U8, [buffer.len()]).device_address();
        let counts = address(&self.counts);
        let scale = ((HOST_BUCKETS as u64) << 32) / u64::from(sets);
        HostHitsParams {
            list: address(&self.list),
            ordered: address(&self.ordered),
            buckets: address(&self.buckets),
            listed: counts,
            ready: counts + size_of::<u32>() as u64,
            bucket_scale: u32::try_from(scale).unwrap_or(u32::MAX),
            unused: 0,
        }
    }
}

/// A write of one stream.
pub struct WriteArgs<'a> {
    /// i64 `[keys]`
    pub keys: View<'a>,
    /// f32 `[rows, dim]`
    pub rows: View<'a>,
    /// i32 `[keys]`: which row each key has; `None`: its own
    pub row_at: Option<View<'a>>,
    pub how: CacheWrite,
    /// i32 `[1]`: keys that found no slot are added
    pub refused: ViewMut<'a>,
}

impl CudaHotCache {
    /// Empty.
    pub fn new(device: &Arc<CudaDevice>, shape: HotCacheShape) -> Result<Self, Error> {
        let memory = Device::Cuda(Arc::clone(device));
        let sets = memory.take(shape.sets() as usize * SET_BYTES, "sets of a hot cache")?;
        let rows = memory.take(shape.device_row_bytes(), "rows of a hot cache")?;
        let host_rows = match shape.host_row_bytes() {
            0 => None,
            bytes => Some(device.pinned(bytes)?),
        };
        // Other streams use it from now on.
        device.synchronize()?;
        Ok(CudaHotCache { shape, sets, rows, host_rows, queries: AtomicU32::new(0) })
    }

    pub fn shape(&self) -> HotCacheShape {
        self.shape
    }

    pub(crate) fn params(&self, now: u32) -> Result<HotCacheParams, Error> {
        let host_rows = self.host_rows.as_ref().map_or(Ok(0), PinnedBuffer::device_address)?;
        Ok(HotCacheParams {
            sets: self.sets.view(DType::U8, [self.sets.len()]).device_address(),
            device_rows: self.rows.view(DType::U8, [self.rows.len()]).device_address(),
            host_rows,
            set_count: self.shape.sets(),
            device_ways: extent(self.shape.device_ways),
            row_bytes: extent(self.shape.row_bytes()),
            now: now & 0xffff,
        })
    }

    fn now(&self) -> u32 {
        self.queries.load(Ordering::Relaxed)
    }
}

kernel_params! {
    /// Twin of `HotCache` in `hot_cache.cuh`.
    pub(crate) struct HotCacheParams: 40 bytes {
        sets: u64,
        device_rows: u64,
        host_rows: u64,
        set_count: u32,
        device_ways: u32,
        row_bytes: u32,
        now: u32,
    }
}

kernel_params! {
    /// Twin of `HostHits` in `hot_cache_rows.cuh`.
    #[derive(Default)]
    struct HostHitsParams: 48 bytes {
        list: u64,
        ordered: u64,
        buckets: u64,
        listed: u64,
        ready: u64,
        bucket_scale: u32,
        unused: u32,
    }
}

kernel_params! {
    /// Twin of `HotCacheHostParams` in `hot_cache_host.cu`.
    struct HotCacheHostParams: 104 bytes {
        cache: HotCacheParams,
        hits: HostHitsParams,
        keys: u64,
        rows: u64,
    }
}

kernel_params! {
    /// Twin of `HotCacheQueryParams` in `hot_cache_query.cu`.
    struct HotCacheQueryParams: 160 bytes {
        cache: HotCacheParams,
        keys: u64,
        rows: u64,
        missed_keys: u64,
        missed_at: u64,
        missed: u64,
        next_missed: u64,
        unique: u64,
        host_hits: HostHitsParams,
        count: u32,
        default_value: f32,
        stamps: u32,
        unused: u32,
    }
}

kernel_params! {
    /// Twin of `HotCacheWriteParams` in `hot_cache_write.cu`.
    struct HotCacheWriteParams: 80 bytes {
        cache: HotCacheParams,
        keys: u64,
        rows: u64,
        row_at: u64,
        refused: u64,
        count: u32,
        mode: u32,
    }
}

kernel_params! {
    /// Twin of `HotCacheSetsParams` in `hot_cache_sets.cu`.
    struct HotCacheSetsParams: 64 bytes {
        cache: HotCacheParams,
        keys: u64,
        count: u64,
        start: u32,
        end: u32,
    }
}

/// Lanes that work on one key, as in `hot_cache.cuh`.
const GROUP: usize = 8;
const QUERY_THREADS: usize = 128;
/// As in `hot_cache_rows.cuh`.
const HOST_BUCKETS: usize = 1 << 16;
/// From so many keys on, hits in host memory are put in order first: with fewer, the bus is not
/// what is waited for.
const ORDERED_KEYS: usize = 16 << 10;
const ORDER_BLOCKS: usize = 512;
/// Few, so that the rows under way lie close together: measured with 33 to 264 on an H200.
const HOST_ROW_BLOCKS: usize = 132;
const THREADS: usize = 256;

pub(crate) struct HotCacheKernels {
    query: ByWidth<HotCacheQueryParams>,
    host_starts: ByWidth<HotCacheHostParams>,
    host_order: ByWidth<HotCacheHostParams>,
    host_rows: ByWidth<HotCacheHostParams>,
    write: ByWidth<HotCacheWriteParams>,
    keys: TypedKernel<HotCacheSetsParams>,
    age: TypedKernel<HotCacheSetsParams>,
}

impl HotCacheKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let sets = load(device, "hot_cache_sets", "any")?;
        Ok(HotCacheKernels {
            query: ByWidth::find(device, "hot_cache_query", "hot_cache_query")?,
            host_starts: ByWidth::find(device, "hot_cache_host", "hot_cache_host_starts")?,
            host_order: ByWidth::find(device, "hot_cache_host", "hot_cache_host_order")?,
            host_rows: ByWidth::find(device, "hot_cache_host", "hot_cache_host_rows")?,
            write: ByWidth::find(device, "hot_cache_write", "hot_cache_write")?,
            keys: TypedKernel::find(&sets, "hot_cache_keys")?,
            age: TypedKernel::find(&sets, "hot_cache_age")?,
        })
    }

    pub(crate) fn query(&self, cache: &CudaHotCache, args: QueryArgs<'_>) -> Result<(), Error> {
        let [count] = args.keys.dims();
        check_rows(cache, args.rows.as_view(), count);
        assert_eq!(args.keys.dtype(), DType::I64, "keys of a query");
        assert!(args.missed_keys.as_view().dense_bytes() >= 8 * count, "room for missed keys");
        assert!(args.missed_at.as_view().dense_bytes() >= 4 * count, "room for missed indices");
        let now = self.begin_query(cache)?;
        let is_large = count >= ORDERED_KEYS && cache.host_rows.is_some();
        let host_hits = args.host_hits.filter(|_| is_large).map(|hits| {
            assert!(count <= hits.keys_most, "{count} keys, room for {}", hits.keys_most);
            hits.params(cache.shape.sets())
        });
        let params = HotCacheQueryParams {
            cache: cache.params(now)?,
            keys: args.keys.device_address(),
            rows: args.rows.device_address(),
            missed_keys: args.missed_keys.device_address(),
            missed_at: args.missed_at.device_address(),
            missed: args.missed.device_address(),
            next_missed: args.next_missed.device_address(),
            unique: args.unique.map_or(0, |unique| unique.device_address()),
            host_hits: host_hits.unwrap_or_default(),
            count: extent(count),
            default_value: args.default_value,
            stamps: u32::from(cache.shape.evicts),
            unused: 0,
        };
        let blocks = (count * GROUP).div_ceil(QUERY_THREADS);
        let kernel = self.query.of(cache.shape.row_bytes());
        // SAFETY: the shapes were just checked. What other launches write of the cache meanwhile is
        // seen whole or not at all, by the versions of its sets.
        unsafe { kernel.launch([blocks, 1, 1], QUERY_THREADS, &params) };
        if let Some(hits) = host_hits {
            let HotCacheQueryParams { cache, keys, rows, .. } = params;
            self.bring_host_rows(&HotCacheHostParams { cache, hits, keys, rows });
        }
        Ok(())
    }

    /// What stamps the keys of the next query; the ages of all are bounded from time to time.
    pub(crate) fn begin_query(&self, cache: &CudaHotCache) -> Result<u32, Error> {
        let now = cache.queries.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if now.is_multiple_of(AGING_QUERIES) {
            self.age(cache, now)?;
        }
        Ok(now)
    }

    /// Rows of hits that a query has listed.
    fn bring_host_rows(&self, params: &HotCacheHostParams) {
        let row_bytes = params.cache.row_bytes as usize;
        for (kernel, blocks, threads) in [
            (&self.host_starts, 1, 1024),
            (&self.host_order, ORDER_BLOCKS, THREADS),
            (&self.host_rows, HOST_ROW_BLOCKS, QUERY_THREADS),
        ] {
            // SAFETY: the list has room for all keys of the query, and names rows there are.
            unsafe { kernel.of(row_bytes).launch([blocks, 1, 1], threads, params) };
        }
    }

    pub(crate) fn write(&self, cache: &CudaHotCache, args: WriteArgs<'_>) -> Result<(), Error> {
        let [count] = args.keys.dims();
        assert_eq!(args.keys.dtype(), DType::I64, "keys of a write");
        match args.row_at {
            None => check_rows(cache, args.rows, count),
            Some(row_at) => assert!(row_at.dense_bytes() >= 4 * count, "rows of a write"),
        }
        let params = HotCacheWriteParams {
            cache: cache.params(cache.now())?,
            keys: args.keys.device_address(),
            rows: args.rows.device_address(),
            row_at: args.row_at.map_or(0, |row_at| row_at.device_address()),
            refused: args.refused.device_address(),
            count: extent(count),
            mode: match args.how {
                CacheWrite::Evict => 0,
                CacheWrite::Resident => 1,
                CacheWrite::Present => 2,
            },
        };
        let blocks = (count * GROUP).div_ceil(THREADS);
        let kernel = self.write.of(cache.shape.row_bytes());
        // SAFETY: the shapes were just checked; that `row_at` names rows there are is the caller's
        // promise. A set is written under its lock.
        unsafe { kernel.launch([blocks, 1, 1], THREADS, &params) };
        Ok(())
    }

    /// Lists the keys of some sets · keys: i64, room for all slots · count: i32 `[1]`, zero before
    pub(crate) fn keys(
        &self,
        cache: &CudaHotCache,
        sets: Range<u32>,
        keys: ViewMut<'_>,
        count: ViewMut<'_>,
    ) -> Result<(), Error> {
        let slots = sets.len() * HOT_CACHE_WAYS;
        assert!(sets.end <= cache.shape.sets(), "{sets:?} of {} sets", cache.shape.sets());
        assert!(keys.as_view().dense_bytes() >= 8 * slots, "room for the keys of {sets:?}");
        let params = HotCacheSetsParams {
            cache: cache.params(cache.now())?,
            keys: keys.device_address(),
            count: count.device_address(),
            start: sets.start,
            end: sets.end,
        };
        // SAFETY: the room was just checked.
        unsafe { self.keys.launch([slots.div_ceil(THREADS), 1, 1], THREADS, &params) };
        Ok(())
    }

    /// Bounds the ages of all stamps.
    fn age(&self, cache: &CudaHotCache, now: u32) -> Result<(), Error> {
        let (cache, end, slots) = (cache.params(now)?, cache.shape.sets(), cache.shape.slots());
        let params = HotCacheSetsParams { cache, keys: 0, count: 0, start: 0, end };
        // SAFETY: it touches stamps of sets that there are.
        unsafe { self.age.launch([slots.div_ceil(THREADS), 1, 1], THREADS, &params) };
        Ok(())
    }
}

fn check_rows(cache: &CudaHotCache, rows: View<'_>, count: usize) {
    assert_eq!(rows.dims(), [count, cache.shape.dim()], "rows of a hot cache");
    assert_eq!(rows.dtype(), DType::F32, "rows of a hot cache");
    assert_eq!(rows.dense_bytes(), count * cache.shape.row_bytes(), "rows lie densely");
}
