//! The specification: all rows are looked up, then pooled slot by slot.

use super::PoolHostArgs;
use crate::ctr::pool_rows;
use crate::gather::hot_cache::HostHotCache;

/// Whether all keys were there · out: `[segments, dim]`
pub(crate) fn pool_cached(cache: &HostHotCache, args: PoolHostArgs<'_>, out: &mut [f32]) -> bool {
    let PoolHostArgs { keys, offsets, combiner, default_value } = args;
    let dim = cache.shape().dim();
    let (mut rows, mut missed) = (vec![0.0; keys.len() * dim], Vec::new());
    cache.query(keys, default_value, &mut rows, &mut missed);
    for (segment, out) in offsets.windows(2).zip(out.chunks_exact_mut(dim)) {
        let rows = &rows[segment[0] as usize * dim..segment[1] as usize * dim];
        let factor = combiner.factor((segment[1] - segment[0]) as usize);
        pool_rows::reference::pool(rows.chunks_exact(dim), factor, out);
    }
    missed.is_empty()
}
