//! Launches the kernels of `dedupe_keys.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

pub(crate) struct DedupeKernels {
    keys: TypedKernel<DedupeKeysParams>,
    inverse: TypedKernel<DedupeKeysParams>,
    clear: TypedKernel<DedupeKeysParams>,
}

pub struct DedupeArgs<'a> {
    /// i64 `[keys]`
    pub keys: View<'a>,
    /// i32 `[slots]`, a power of two that is at least twice the keys; -1 before and after
    pub table: ViewMut<'a>,
    /// i32 `[keys]`: scratch
    pub slots: ViewMut<'a>,
    /// i64 `[keys]`
    pub unique_keys: ViewMut<'a>,
    /// i32 `[keys]`: the number of each key among the unique ones
    pub inverse: ViewMut<'a>,
    /// i32 `[1]`: how many are unique; zero before
    pub unique: ViewMut<'a>,
    /// i32 `[1]`: set to zero, for the next call
    pub next_unique: ViewMut<'a>,
}

kernel_params! {
    /// Twin of `DedupeKeysParams` in `dedupe_keys.cu`.
    struct DedupeKeysParams: 64 bytes {
        keys: u64,
        table: u64,
        slots: u64,
        unique_keys: u64,
        inverse: u64,
        unique: u64,
        next_unique: u64,
        count: u32,
        table_mask: u32,
    }
}

const THREADS: usize = 256;

impl DedupeKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "dedupe_keys", "i64")?;
        Ok(DedupeKernels {
            keys: TypedKernel::find(&module, "dedupe_keys")?,
            inverse: TypedKernel::find(&module, "dedupe_inverse")?,
            clear: TypedKernel::find(&module, "dedupe_clear")?,
        })
    }

    pub(crate) fn dedupe(&self, args: DedupeArgs<'_>) {
        let ([count], [slots]) = (args.keys.dims(), args.table.dims());
        assert!(slots.is_power_of_two() && slots >= 2 * count, "{slots} slots for {count} keys");
        assert_eq!([args.keys.dtype(), args.table.dtype()], [DType::I64, DType::I32]);
        for (room, wanted) in [
            (args.slots.as_view(), 4),
            (args.unique_keys.as_view(), 8),
            (args.inverse.as_view(), 4),
        ] {
            assert!(room.dense_bytes() >= wanted * count, "room for {count} keys");
        }
        let params = DedupeKeysParams {
            keys: args.keys.device_address(),
            table: args.table.device_address(),
            slots: args.slots.device_address(),
            unique_keys: args.unique_keys.device_address(),
            inverse: args.inverse.device_address(),
            unique: args.unique.device_address(),
            next_unique: args.next_unique.device_address(),
            count: extent(count),
            table_mask: extent(slots - 1),
        };
        for kernel in [&self.keys, &self.inverse, &self.clear] {
            // SAFETY: the room was just checked; the table has free slots, so that probing ends.
            unsafe { kernel.launch([count.div_ceil(THREADS), 1, 1], THREADS, &params) };
        }
    }
}
