//! Launches `slot_plain.cu`.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use super::key_rope::KeyRope;
use super::slot_step::SlotStep;
use crate::attention::attend_args::AttendArgs;
use crate::cuda::{CodeBooks, extent, kernel_params, load};
use crate::error::Error;
use crate::pages::slot_kv::SlotKv;

pub(super) struct PlainKernels {
    /// For heads of up to 128 numbers, and up to 256.
    widths: [Width; 2],
}

struct Width {
    attention: CudaKernel,
    weights: CudaKernel,
}

kernel_params! {
    /// Twin of `SlotPlainParams` in `slot_plain.cu`.
    struct SlotPlainParams: 208 bytes {
        step: SlotStep,
        first_seq: u32,
    }
}

/// Widest head.
pub(super) const MAX_HEAD_DIM: usize = 256;
const BLOCK: u32 = 256;
/// Slots of a block of weights.
const WEIGHTS_SLOTS: usize = 32;

impl PlainKernels {
    pub(super) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "slot_plain", "any")?;
        let width = |width: usize| {
            let attention = module.kernel(&format!("slot_attention_{width}"))?;
            let weights = module.kernel(&format!("slot_weights_{width}"))?;
            Ok::<_, Error>(Width { attention, weights })
        };
        Ok(PlainKernels { widths: [width(128)?, width(MAX_HEAD_DIM)?] })
    }

    /// Some rows: those before them are of as many sequences, and so are all up to their end,
    /// unless it is the end of all.
    pub(super) fn launch(
        &self,
        args: &AttendArgs<'_>,
        kv: &SlotKv<'_>,
        books: &CodeBooks,
        rows: Range<usize>,
    ) {
        let (layout, [tokens, _]) = (kv.layout, args.out.dims());
        let width = &self.widths[usize::from(layout.key_dim > 128)];
        let rope = KeyRope::of_all_keys(args, kv);
        let step = SlotStep::new(args, kv, books, rope, args.scale);
        let params =
            SlotPlainParams { step: step.starting_at(rows.start), first_seq: extent(rows.start) };
        let grid = [extent(args.heads), extent(rows.len()), 1];
        let launch = Launch { grid, block: BLOCK, shared_bytes: 0 };
        // SAFETY: the struct is the kernel's twin; shapes were checked by the caller and by the
        // kernel that stored the live rows; tables, rules and pages are as `SlotKv` promises.
        unsafe { width.attention.launch(launch, &params) };
        if !layout.notes.scores {
            return;
        }
        let [seqs, table_pages] = kv.block_tables.dims();
        let end = if rows.end == tokens { seqs } else { rows.end };
        let blocks = (table_pages * layout.page_slots).div_ceil(WEIGHTS_SLOTS);
        let grid = [extent(blocks), extent(layout.kv_heads), extent(end - rows.start)];
        let launch = Launch { grid, block: BLOCK, shared_bytes: 0 };
        // SAFETY: as above.
        unsafe { width.weights.launch(launch, &params) };
    }
}
