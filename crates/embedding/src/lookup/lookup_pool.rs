//! Workspaces for look-ups on one GPU whose rows go to host memory; who finds none waits.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use terrace_device::cuda::CudaDevice;

use super::cuda_lookup::CudaLookup;
use super::lookup_stats::LookupStats;
use super::missing_rows::MissingRows;
use super::served_table::ServedTable;
use crate::error::Error;

pub struct LookupPool {
    keys_most: usize,
    free: Mutex<Vec<CudaLookup>>,
    returned: Condvar,
}

impl LookupPool {
    /// So many workspaces, each for look-ups of at most so many keys; larger ones are cut.
    pub fn new(
        device: &Arc<CudaDevice>,
        workspaces: usize,
        keys_most: usize,
        dim_most: usize,
    ) -> Result<Self, Error> {
        let workspace = |_| {
            // Of the same GPU, with a stream of its own.
            let stream = CudaDevice::open(device.info())?;
            CudaLookup::new(&stream, keys_most, dim_most)
        };
        let free = (0..workspaces.max(1)).map(workspace).collect::<Result<_, _>>()?;
        Ok(LookupPool { keys_most, free: Mutex::new(free), returned: Condvar::new() })
    }

    /// The rows of keys through one of the table's hot caches · rows: `[keys, dim]`
    pub fn look_up(
        &self,
        table: &Arc<ServedTable>,
        cache: usize,
        keys: &[i64],
        missing: MissingRows,
        rows: &mut [f32],
    ) -> Result<LookupStats, Error> {
        let mut lookup = self.take();
        let mut stats = LookupStats::default();
        let dim = table.spec().dim;
        let mut parts = keys.chunks(self.keys_most).zip(rows.chunks_mut(self.keys_most * dim));
        let looked_up = parts.try_for_each(|(keys, rows)| {
            stats.add(&lookup.look_up_to_host(table, cache, keys, missing, rows)?);
            Ok(())
        });
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(lookup);
        self.returned.notify_one();
        looked_up.map(|()| stats)
    }

    fn take(&self) -> CudaLookup {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match free.pop() {
                Some(lookup) => return lookup,
                None => free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
