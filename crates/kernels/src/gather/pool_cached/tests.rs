//! Every level pools what the specification does.

use terrace_device::ViewMut;

use super::{PoolHostArgs, cpu, reference};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::cpu_level::CpuLevel;
use crate::cpu::cpu_options::{Compute, CpuOptions};
use crate::ctr::pool_rows::Combiner;
use crate::gather::hot_cache::{CacheWrite, HostHotCache, HotCacheShape};
use crate::random::SplitMix;

const ROWS: usize = 500;

/// Of keys `0..ROWS`; rows of each level of this processor must be those of the specification.
fn check(random: &mut SplitMix, dim: usize, slots: usize, samples: usize, keys_below: usize) {
    let shape = HotCacheShape::resident(ROWS, dim, usize::MAX).expect("a small cache");
    let mut cache = HostHotCache::new(shape).expect("a small cache");
    let keys: Vec<i64> = (0..ROWS as i64).collect();
    let rows = random.numbers(ROWS * dim);
    assert_eq!(cache.write(&keys, &rows, CacheWrite::Resident), 0);
    let (mut keys, mut offsets) = (Vec::new(), vec![0]);
    let is_one_hot = random.below(2) == 0;
    for _ in 0..samples * slots {
        let count = if is_one_hot { 1 } else { [0, 1, 1, 2, 3, 17][random.below(6)] };
        keys.extend((0..count).map(|_| random.below(keys_below) as i64));
        offsets.push(keys.len() as i32);
    }
    for combiner in [Combiner::Sum, Combiner::Mean] {
        let args = PoolHostArgs { keys: &keys, offsets: &offsets, combiner, default_value: 0.375 };
        let mut want = vec![f32::NAN; samples * slots * dim];
        let has_all = reference::pool_cached(&cache, args, &mut want);
        assert_eq!(has_all, keys.iter().all(|key| (*key as usize) < ROWS));
        for level in CpuLevel::available() {
            let options = CpuOptions { threads: 3, level: Some(level), compute: Compute::F32 };
            let ctx = CpuCtx::new(options).expect("a level that there is");
            let mut found = vec![f32::NAN; want.len()];
            let out = ViewMut::of(&mut found, [samples, slots * dim]);
            assert_eq!(cpu::pool_cached(&ctx, &cache, args, out), has_all);
            for (found, want) in found.iter().zip(&want) {
                let apart = (found - want).abs();
                assert!(apart < 4e-6 * want.abs().max(1.0), "{}: {found}, {want}", level.name());
            }
        }
    }
}

#[test]
fn every_level_pools_as_the_specification_does() {
    let mut random = SplitMix::new(31);
    for dim in [1, 3, 4, 16, 33, 128, 300] {
        for (slots, samples) in [(1, 1), (2, 7), (26, 3), (5, 20), (1, 33)] {
            check(&mut random, dim, slots, samples, ROWS);
            check(&mut random, dim, slots, samples, ROWS + 40);
        }
    }
}

#[test]
fn keys_that_were_pooled_are_not_evicted_first() {
    let shape = HotCacheShape::evicting(36, 2).expect("a small cache");
    let mut cache = HostHotCache::new(shape).expect("a small cache");
    let set = crate::gather::hot_cache::reference::first_set;
    let mates = (1..).filter(|key| set(shape, *key) == set(shape, 1)).take(13);
    let mates: Vec<i64> = mates.collect();
    for key in &mates[..12] {
        cache.write(&[*key], &[*key as f32; 2], CacheWrite::Evict);
    }
    let options = CpuOptions { threads: 1, level: None, compute: Compute::F32 };
    let ctx = CpuCtx::new(options).expect("some level");
    // All but the fourth.
    let keys: Vec<i64> = mates[..12].iter().copied().filter(|key| *key != mates[3]).collect();
    let offsets: Vec<i32> = (0..=11).collect();
    let combiner = Combiner::Sum;
    let args = PoolHostArgs { keys: &keys, offsets: &offsets, combiner, default_value: 0.0 };
    let mut out = [0.0; 22];
    assert!(cpu::pool_cached(&ctx, &cache, args, ViewMut::of(&mut out, [11, 2])));
    cache.write(&mates[12..], &[0.0; 2], CacheWrite::Evict);
    let args = PoolHostArgs { keys: &mates[3..4], offsets: &[0, 1], ..args };
    assert!(!cpu::pool_cached(&ctx, &cache, args, ViewMut::of(&mut out[..2], [1, 2])));
}
