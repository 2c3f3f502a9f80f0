//! Sums over GPUs of one machine, by NVIDIA's NCCL, where the library is found.
//!
//! One thread speaks for all GPUs, in groups: none of them waits for another that never comes.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::Arc;

use libloading::Library;
use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::find_library::find_library;
use super::library_calls::library_calls;
use crate::error::Error;
use crate::ops::{Ops, Table};

const NAMES: [&str; 1] = ["libnccl.so.2"];
// Values of the library's enumerations.
const F32: c_int = 7;
const SUM: c_int = 0;

type Comm = *mut c_void;

library_calls! { Calls;
    open_all = b"ncclCommInitAll\0": fn(*mut Comm, c_int, *const c_int);
    destroy = b"ncclCommDestroy\0": fn(Comm);
    begin_group = b"ncclGroupStart\0": fn();
    end_group = b"ncclGroupEnd\0": fn();
    all_reduce = b"ncclAllReduce\0":
        fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, *mut c_void);
}

/// GPUs that add up arrays among themselves.
pub struct RankSums {
    calls: Calls,
    /// In the order of ranks.
    members: Vec<(Arc<CudaDevice>, Comm)>,
    /// Keeps the calls alive.
    _library: Library,
}

// SAFETY: a communicator may be used from any thread, by one at a time: `sum` takes `&mut self`.
unsafe impl Send for RankSums {}

impl RankSums {
    /// Of the ranks' GPUs, which are all different; `None` for CPUs and where there is no NCCL.
    pub fn open(ranks: &[Ops], folders: &[PathBuf]) -> Result<Option<Self>, Error> {
        let device = |ops: &Ops| match &ops.table {
            Table::Cuda(cuda) => Some(Arc::clone(cuda.device())),
            Table::Cpu(_) => None,
        };
        let Some(devices) = ranks.iter().map(device).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let Some(library) = find_library(&NAMES, folders) else { return Ok(None) };
        let Some(calls) = Calls::of(&library) else { return Ok(None) };
        let ordinals: Vec<c_int> =
            devices.iter().map(|device| device.info().ordinal as c_int).collect();
        let mut comms = vec![null_mut(); devices.len()];
        // SAFETY: there are as many of both as is said.
        let status = unsafe {
            (calls.open_all)(comms.as_mut_ptr(), ordinals.len() as c_int, ordinals.as_ptr())
        };
        check(status, "opening GPUs to each other")?;
        let members = devices.into_iter().zip(comms).collect();
        Ok(Some(RankSums { calls, members, _library: library }))
    }

    /// Each array becomes the sum of all, in the order of what is launched. arrays: f32, dense, of
    /// equal length, one of each rank
    pub fn sum(&mut self, arrays: Vec<ViewMut<'_>>) -> Result<(), Error> {
        assert_eq!(arrays.len(), self.members.len(), "an array of each rank");
        let count = arrays[0].shape().count();
        // SAFETY: the calls take nothing.
        check(unsafe { (self.calls.begin_group)() }, "adding up gradients")?;
        let mut failed = 0;
        for (array, (device, comm)) in arrays.iter().zip(&self.members) {
            let is_alike = array.dtype() == DType::F32 && array.shape().count() == count;
            assert!(is_alike, "arrays of all ranks are alike");
            let address = array.as_view().device_address() as usize;
            // SAFETY: so many numbers lie there, and nobody else has them while this runs in the
            // stream that wrote them.
            let status = unsafe {
                (self.calls.all_reduce)(
                    std::ptr::without_provenance(address),
                    std::ptr::without_provenance_mut(address),
                    count,
                    F32,
                    SUM,
                    *comm,
                    device.raw_stream(),
                )
            };
            failed = if failed == 0 { status } else { failed };
        }
        // SAFETY: the group was begun.
        let ended = unsafe { (self.calls.end_group)() };
        check(if failed == 0 { ended } else { failed }, "adding up gradients")
    }
}

impl Drop for RankSums {
    fn drop(&mut self) {
        for (device, comm) in &self.members {
            // What still runs is waited for; its failure shows where results are read.
            let _ = device.synchronize();
            // SAFETY: opened by `open`, and given back once.
            unsafe { (self.calls.destroy)(*comm) };
        }
    }
}

fn check(status: c_int, what: &'static str) -> Result<(), Error> {
    match status {
        0 => Ok(()),
        status => Err(Error::Nccl { what, status }),
    }
}
