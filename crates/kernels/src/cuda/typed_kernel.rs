//! A kernel with the type of the one struct that it takes.

use std::marker::PhantomData;
use std::sync::Arc;

use terrace_device::cuda::{CopyStream, CudaDevice, CudaKernel, CudaModule, Launch};

use super::extent;
use super::ptx::load;
use crate::error::Error;

pub(crate) struct TypedKernel<P> {
    kernel: CudaKernel,
    params: PhantomData<fn(P)>,
}

/// Declares what a kernel takes, field by field as in its `.cu` file, and how long it is there.
macro_rules! kernel_params {
    ($(#[$about:meta])* $scope:vis struct $name:ident: $bytes:literal bytes { $($fields:tt)* }) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        $scope struct $name { $($fields)* }

        const _: () = assert!(size_of::<$name>() == $bytes);
    };
}
pub(crate) use kernel_params;

impl<P: Copy> TypedKernel<P> {
    /// The kernel of a file that has its name, which takes a `P`.
    pub(crate) fn load(device: &Arc<CudaDevice>, file: &str, variant: &str) -> Result<Self, Error> {
        Self::find(&load(device, file, variant)?, file)
    }

    /// One of the kernels of a file, which takes a `P`.
    pub(crate) fn find(module: &CudaModule, name: &str) -> Result<Self, Error> {
        Ok(TypedKernel { kernel: module.kernel(name)?, params: PhantomData })
    }

    /// Lets a launch have this much shared memory.
    pub(crate) fn allow_shared(&self, bytes: usize) -> Result<(), Error> {
        Ok(self.kernel.allow_shared(extent(bytes))?)
    }

    /// Launches blocks of so many threads.
    ///
    /// # Safety
    /// The addresses in `params` are device memory that is large enough, lives until the launch has
    /// run, and is not written by others.
    pub(crate) unsafe fn launch(&self, grid: [usize; 3], threads: usize, params: &P) {
        // SAFETY: the caller's contract.
        unsafe { self.launch_shared(grid, threads, 0, params) };
    }

    /// As [`launch`](Self::launch), on the side stream.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch); addresses may be of pinned host memory too.
    pub(crate) unsafe fn launch_beside(
        &self,
        stream: &CopyStream,
        grid: [usize; 3],
        threads: usize,
        params: &P,
    ) {
        let launch = Launch { grid: grid.map(extent), block: extent(threads), shared_bytes: 0 };
        // SAFETY: a `P` is what the kernel takes; the rest is the caller's contract.
        unsafe { self.kernel.launch_beside(stream, launch, params) };
    }

    /// As [`launch`](Self::launch), with shared memory for each block.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    pub(crate) unsafe fn launch_shared(
        &self,
        grid: [usize; 3],
        threads: usize,
        shared_bytes: usize,
        params: &P,
    ) {
        let (block, shared_bytes) = (extent(threads), extent(shared_bytes));
        let launch = Launch { grid: grid.map(extent), block, shared_bytes };
        // SAFETY: a `P` is what the kernel takes; the rest is the caller's contract.
        unsafe { self.kernel.launch(launch, params) };
    }
}
