//! A captured run of launches that is started with one call.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUgraphExec, CUstreamCaptureMode};

use super::call::check;
use super::cuda_device::CudaDevice;
use crate::error::Error;

pub struct CudaGraph {
    device: Arc<CudaDevice>,
    graph: CUgraphExec,
}

// SAFETY: a handle that any thread may use once the context is bound.
unsafe impl Send for CudaGraph {}

impl CudaDevice {
    /// Records what `work` launches as a graph, without running it.
    pub fn capture(self: &Arc<Self>, work: impl FnOnce()) -> Result<CudaGraph, Error> {
        self.synchronize()?;
        let stream = self.stream();
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let (mut captured, mut graph) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream is idle and ours; what `work` launches is captured, not run.
        unsafe {
            check(sys::cuStreamBeginCapture_v2(stream, mode), || "starting a graph".into())?;
            work();
            let ended = sys::cuStreamEndCapture(stream, &raw mut captured);
            self.take_failure()?;
            check(ended, || "recording a graph".into())?;
            let made = sys::cuGraphInstantiateWithFlags(&raw mut graph, captured, 0);
            sys::cuGraphDestroy(captured);
            check(made, || "making a graph".into())?;
            let graph = CudaGraph { device: Arc::clone(self), graph };
            check(sys::cuGraphUpload(graph.graph, stream), || "placing a graph".into())?;
            Ok(graph)
        }
    }
}

impl CudaGraph {
    /// Starts the captured launches behind everything launched so far.
    pub fn launch(&self) {
        self.device.bind();
        // SAFETY: the graph and the stream are alive; its buffers are static.
        let code = unsafe { sys::cuGraphLaunch(self.graph, self.device.stream()) };
        self.device.keep(check(code, || "launching a graph".into()));
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        self.device.drain();
        // SAFETY: made in `CudaDevice::capture`, owned by `self`, and not running.
        unsafe { sys::cuGraphExecDestroy(self.graph) };
    }
}
