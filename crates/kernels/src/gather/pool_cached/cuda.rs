//! Launches `pool_cached.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::POOLED_DIM_MOST;
use crate::ctr::pool_rows::Combiner;
use crate::cuda::{extent, kernel_params};
use crate::error::Error;
use crate::gather::by_width::ByWidth;
use crate::gather::hot_cache::CudaHotCache;
use crate::gather::hot_cache::cuda::HotCacheParams;

/// Of one table.
pub struct PoolCachedArgs<'a> {
    /// i64 `[keys]`, or i32 if all are below 2^32, whose bits are unsigned; in device memory, or in
    /// pinned host memory that the device reads
    pub keys: View<'a>,
    /// i32 `[samples * slots + 1]`: where each slot's keys begin; `None`: each has one
    pub offsets: Option<View<'a>>,
    pub combiner: Combiner,
    pub default_value: f32,
    /// i32 `[1]`: what [`GatherOps::begin_query`](crate::GatherOps::begin_query) gave
    pub now: View<'a>,
    /// i32 `[1]`, also in pinned host memory: becomes 1 where a key was not there
    pub missed: ViewMut<'a>,
    /// f32, f16 or bf16 `[samples, slots * dim]`
    pub out: ViewMut<'a>,
}

kernel_params! {
    /// Twin of `PoolCachedParams` in `pool_cached.cu`.
    struct PoolCachedParams: 120 bytes {
        cache: HotCacheParams,
        keys: u64,
        offsets: u64,
        out: u64,
        missed: u64,
        now: u64,
        segments: u32,
        slots: u32,
        out_stride: u32,
        out_type: u32,
        default_value: f32,
        means: u32,
        stamps: u32,
        zero: u32,
        is_narrow: u32,
        block_segments: u32,
    }
}

pub(crate) struct PoolCachedKernels {
    /// A key in each slot.
    single: ByDim,
    several: ByDim,
}

/// By the most numbers of a row.
type ByDim = [(usize, ByWidth<PoolCachedParams>); 3];

/// Lanes that work on one slot.
const GROUP: usize = 8;
const THREADS: usize = 128;
/// Segments of a block where each has one key and there are many: so many keys are a long piece of
/// host memory.
const BLOCK_SEGMENTS: usize = 64;
const MANY_SEGMENTS: usize = 64 * 1024;

impl PoolCachedKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let find = |name: &str, most| {
            let name = format!("{name}_{most}");
            Ok::<_, Error>((most, ByWidth::find(device, "pool_cached", &name)?))
        };
        let by_dim = |name| {
            Ok::<_, Error>([find(name, 32)?, find(name, 128)?, find(name, POOLED_DIM_MOST)?])
        };
        Ok(PoolCachedKernels { single: by_dim("pool_single")?, several: by_dim("pool_several")? })
    }

    pub(crate) fn pool(&self, cache: &CudaHotCache, args: PoolCachedArgs<'_>) -> Result<(), Error> {
        let dim = cache.shape().dim();
        let ([keys], [samples, width]) = (args.keys.dims(), args.out.dims());
        assert!(width.is_multiple_of(dim), "out of pool_cached");
        let segments = samples * (width / dim);
        let block_segments = match args.offsets {
            None if MANY_SEGMENTS <= segments => BLOCK_SEGMENTS,
            _ => THREADS / GROUP,
        };
        match args.offsets {
            Some(offsets) => assert_eq!(offsets.dims(), [segments + 1], "offsets of pool_cached"),
            None => assert_eq!(keys, segments, "keys of pool_cached"),
        }
        let params = PoolCachedParams {
            cache: cache.params(0)?,
            keys: args.keys.device_address(),
            offsets: args.offsets.map_or(0, |offsets| offsets.device_address()),
            out: args.out.device_address(),
            missed: args.missed.device_address(),
            now: args.now.device_address(),
            segments: extent(segments),
            slots: extent(width / dim),
            out_stride: extent(args.out.row_stride()),
            out_type: match args.out.dtype() {
                DType::F32 => 0,
                DType::F16 => 1,
                DType::Bf16 => 2,
                other => panic!("pooled rows of {}", other.name()),
            },
            default_value: args.default_value,
            means: u32::from(args.combiner == Combiner::Mean),
            stamps: u32::from(cache.shape().evicts),
            zero: 0,
            is_narrow: match args.keys.dtype() {
                DType::I32 => 1,
                DType::I64 => 0,
                other => panic!("keys of {}", other.name()),
            },
            block_segments: extent(block_segments),
        };
        let by_dim = if args.offsets.is_none() { &self.single } else { &self.several };
        let fitting = by_dim.iter().find(|(most, _)| dim <= *most);
        let (_, kernel) = fitting.unwrap_or_else(|| panic!("rows of {dim} numbers"));
        let blocks = segments.div_ceil(block_segments);
        let kernel = kernel.of(cache.shape().row_bytes());
        // SAFETY: the shapes were just checked; that offsets name keys there are is the caller's
        // promise. What others write of the cache meanwhile is seen whole or not at all.
        unsafe { kernel.launch([blocks, 1, 1], THREADS, &params) };
        Ok(())
    }
}
