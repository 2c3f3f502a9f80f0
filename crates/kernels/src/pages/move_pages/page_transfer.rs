//! Pages on their way. As long as this lives they are held; it does not end before they have come.

use std::sync::Arc;

use terrace_device::Error;
use terrace_device::cuda::{CudaDevice, CudaEvent};

use super::page_moves::PageMoves;

pub struct PageTransfer {
    /// Until it is finished.
    pub(super) moves: Option<PageMoves>,
    /// `None` where all came at once.
    pub(super) marks: Option<Marks>,
}

/// Of a GPU's side stream.
pub(super) struct Marks {
    pub(super) device: Arc<CudaDevice>,
    /// Where the transfer begins.
    pub(super) begin: CudaEvent,
    /// Where each part has come; of a transfer without parts there are none.
    pub(super) parts: Vec<CudaEvent>,
}

impl PageTransfer {
    /// Whether a part has come, with those before it.
    pub fn has_come(&self, part: usize) -> Result<bool, Error> {
        self.marks.as_ref().map_or(Ok(true), |marks| marks.parts[part].has_come())
    }

    /// Waits for a part, and those before it.
    pub fn wait(&self, part: usize) -> Result<(), Error> {
        self.marks.as_ref().map_or(Ok(()), |marks| marks.parts[part].wait())
    }

    pub(super) fn wait_all(&self) -> Result<(), Error> {
        let last = self.marks.as_ref().and_then(|marks| marks.parts.last());
        last.map_or(Ok(()), CudaEvent::wait)
    }

    /// What is launched on the compute stream from now on begins when a part has come.
    pub fn compute_waits(&self, part: usize) {
        if let Some(marks) = &self.marks {
            marks.device.wait_for(&marks.parts[part]);
        }
    }

    /// Milliseconds from the transfer's begin on the device until a part had come, which it has;
    /// `None` on the CPU.
    pub fn part_ms(&self, part: usize) -> Result<Option<f32>, Error> {
        let marks = self.marks.as_ref();
        marks.map(|marks| marks.parts[part].ms_since(&marks.begin)).transpose()
    }
}

impl Drop for PageTransfer {
    fn drop(&mut self) {
        // A failure of the device shows at its next call.
        let _ = self.wait_all();
    }
}
