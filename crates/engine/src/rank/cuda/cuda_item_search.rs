//! Searches on a GPU: what is left out goes there, what is found comes back.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaEvent};
use terrace_device::{Buffer, DType, Device, View};
use terrace_kernels::{HostCopier, MappedBuffer, Ops};

use crate::error::Error;
use crate::rank::chunk_result::ChunkResult;
use crate::rank::item_search::{ItemSearch, QueryOf, in_groups, listed_excluded};
use crate::rank::rank_front::MOST_EXCLUDED;

pub(super) struct CudaItemSearch {
    search: ItemSearch,
    /// Pinned, and its copy on the device: where each query's part starts, and rows left out.
    staging: MappedBuffer,
    excluded: Buffer,
    /// Pinned: scores, and rows.
    found: MappedBuffer,
}

/// Where the rows begin that are left out.
const STARTS: usize = (ItemSearch::QUERIES + 1).next_multiple_of(32);

impl CudaItemSearch {
    pub fn new(
        copier: &HostCopier,
        device: &Arc<CudaDevice>,
        search: ItemSearch,
    ) -> Result<Self, Error> {
        let words = STARTS + ItemSearch::QUERIES * MOST_EXCLUDED;
        let found = 2 * ItemSearch::QUERIES * search.most();
        let on = Device::Cuda(Arc::clone(device));
        Ok(CudaItemSearch {
            staging: MappedBuffer::new(copier, device, DType::I32.bytes() * words)?,
            excluded: on.take(DType::I32.bytes() * words, "items that are left out")?,
            found: MappedBuffer::new(copier, device, DType::F32.bytes() * found)?,
            search,
        })
    }

    /// Searches another table, for as many items.
    pub fn replace(&mut self, search: ItemSearch) {
        assert_eq!(search.most(), self.search.most(), "items that are found");
        self.search = search;
    }

    /// queries: f32 `[queries, dim]`, on the device. `done` marks the end of each search.
    pub fn run(
        &mut self,
        ops: &Ops,
        queries: View<'_>,
        of: &[QueryOf<'_>],
        done: &CudaEvent,
    ) -> Result<Vec<ChunkResult>, Error> {
        let mut results = Vec::new();
        for (rows, of_group) in in_groups(queries, of) {
            results.extend(self.run_group(ops, rows, of_group, done)?);
        }
        Ok(results)
    }

    fn run_group(
        &mut self,
        ops: &Ops,
        queries: View<'_>,
        of: &[QueryOf<'_>],
        done: &CudaEvent,
    ) -> Result<Vec<ChunkResult>, Error> {
        let (starts, excluded) = listed_excluded(of);
        let words = STARTS + excluded.len();
        let mut staging = self.staging.view_mut(DType::I32, [words]);
        let staging = staging.as_mut_slice::<i32>();
        staging[..starts.len()].copy_from_slice(&starts);
        staging[STARTS..].copy_from_slice(&excluded);
        self.staging.copy_to(&self.excluded.view_mut(DType::I32, [words]));
        let placed = self.excluded.view(DType::I32, [words]);
        let starts = placed.rows(0..starts.len());
        self.search.start(ops, queries, starts, placed.rows(STARTS..words));
        let (count, most) = (of.len(), self.search.most());
        let [scores, rows] = self.search.found(count);
        self.found.copy_from(0, scores);
        self.found.copy_from(DType::F32.bytes() * count * most, rows);
        done.record();
        done.wait()?;
        let found = self.found.view(DType::I32, [2, count, most]);
        let numbers = found.as_slice::<i32>();
        let (scores, rows) = numbers.split_at(count * most);
        let scores: Vec<f32> =
            scores.iter().map(|bits| f32::from_bits(bits.cast_unsigned())).collect();
        let results = of.iter().enumerate().map(|(index, query)| {
            let part = index * most..(index + 1) * most;
            query.result(&scores[part.clone()], &rows[part])
        });
        Ok(results.collect())
    }
}
