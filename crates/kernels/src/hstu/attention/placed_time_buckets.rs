//! Buckets of time differences where a device reads them.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device, View};

use super::time_buckets::TimeBuckets;
use crate::error::Error;

pub struct PlacedTimeBuckets {
    buckets: TimeBuckets,
    /// i64: the edges once more, on a GPU.
    edges: Option<Buffer>,
}

impl PlacedTimeBuckets {
    pub(crate) fn on_cpu(buckets: TimeBuckets) -> Self {
        PlacedTimeBuckets { buckets, edges: None }
    }

    pub(crate) fn on_cuda(device: &Arc<CudaDevice>, buckets: TimeBuckets) -> Result<Self, Error> {
        let bytes: Vec<u8> = buckets.edges().iter().flat_map(|edge| edge.to_le_bytes()).collect();
        // A device has no memory of no bytes.
        let home = Device::Cuda(Arc::clone(device));
        let mut edges = home.take(bytes.len().max(8), "edges of time buckets")?;
        if !bytes.is_empty() {
            device.write(&edges.view_mut(DType::U8, [bytes.len()]), &bytes)?;
        }
        Ok(PlacedTimeBuckets { buckets, edges: Some(edges) })
    }

    pub fn buckets(&self) -> &TimeBuckets {
        &self.buckets
    }

    /// i64 `[edges]`; panics where there is no GPU.
    pub(crate) fn edges(&self) -> View<'_> {
        let edges = self.edges.as_ref().expect("edges are placed where a GPU computes");
        edges.view(DType::I64, [self.buckets.edges().len()])
    }
}
