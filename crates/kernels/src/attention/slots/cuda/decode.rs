//! Launches `slot_decode.cu` and `slot_weigh.cu`.

use std::f32::consts::LOG2_E;
use std::ops::Range;
use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use super::key_rope::KeyRope;
use super::memory::DecodeMemory;
use super::slot_step::SlotStep;
use crate::attention::attend_args::AttendArgs;
use crate::attention::split_kv::{BLOCK, BLOCK_WARPS, TILE, head_blocks};
use crate::cuda::{CodeBooks, extent, kernel_params, load};
use crate::error::Error;
use crate::pages::row_format::RowFormat;
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_layout::SlotLayout;
use crate::quantise::Quantiser;

pub(super) struct DecodeKernels {
    format: RowFormat,
    dim: usize,
    attention: CudaKernel,
    /// Over keys that are rotated on read.
    rotating: CudaKernel,
    weigh: CudaKernel,
    shared_bytes: u32,
}

kernel_params! {
    /// Twin of `SlotDecodeParams` in `slot_decode.cuh`.
    struct SlotDecodeParams: 248 bytes {
        step: SlotStep,
        slots: u64,
        partials: u64,
        arrivals: u64,
        kept: u64,
        peaks: u64,
        kept_slots: u32,
    }
}

/// Slots of the shortest split and of the longest; between them a row is cut into 16.
const SPLIT_SLOTS: [usize; 2] = [512, 2048];
const SPLITS: usize = 16;
/// Of `slot_weigh.cu`: most query heads that can share a kv head, and slots of a block.
const MAX_GROUP: usize = 128;
const WEIGH_BLOCK: u32 = 256;
const WEIGH_SLOTS: usize = 2048;

impl DecodeKernels {
    /// Whether there are such kernels.
    pub(super) fn exist_for(layout: &SlotLayout, activation: DType) -> bool {
        // In f32 all arithmetic is f32, which tensor cores do not have.
        activation != DType::F32 && layout.keys == layout.values && variant(layout).is_some()
    }

    /// Whether they take so many query heads.
    pub(super) fn take_heads(layout: &SlotLayout, heads: usize) -> bool {
        heads / layout.kv_heads <= MAX_GROUP
    }

    pub(super) fn load(device: &Arc<CudaDevice>, layout: &SlotLayout) -> Result<Self, Error> {
        let variant = variant(layout).expect("asked for only where they exist");
        let module = load(device, "slot_decode", &variant)?;
        let [attention, rotating] =
            [module.kernel("slot_decode")?, module.kernel("slot_decode_rerotating")?];
        let weigh = load(device, "slot_weigh", "any")?.kernel("slot_weigh")?;
        let shared_bytes = shared_bytes(layout);
        attention.allow_shared(shared_bytes)?;
        rotating.allow_shared(shared_bytes)?;
        let (format, dim) = (layout.keys, layout.key_dim);
        Ok(DecodeKernels { format, dim, attention, rotating, weigh, shared_bytes })
    }

    pub(super) fn suit(&self, layout: &SlotLayout) -> bool {
        [layout.keys, layout.values] == [self.format; 2] && layout.key_dim == self.dim
    }

    /// The rows of sequences that have one. Of keys that are rotated on read the whole head is.
    pub(super) fn launch(
        &self,
        args: &AttendArgs<'_>,
        kv: &SlotKv<'_>,
        books: &CodeBooks,
        memory: &DecodeMemory,
    ) {
        let (layout, singles) = (kv.layout, kv.singles);
        let [_, table_pages] = kv.block_tables.dims();
        let slots = (table_pages * layout.page_slots).next_multiple_of(TILE);
        let group = args.heads / layout.kv_heads;
        let splits = most_splits(slots);
        let mut rows = memory.rows(args.heads * splits);
        if layout.notes.scores {
            let row_kept = layout.kv_heads * slots * group.next_multiple_of(4);
            rows = rows.min(memory.kept() / row_kept);
        }
        assert!(0 < rows, "{slots} slots of {} heads are too many for a row", args.heads);
        let params = params(args, kv, books, memory, slots);
        for start in (0..singles).step_by(rows) {
            let rows = start..singles.min(start + rows);
            let params = SlotDecodeParams { step: params.step.starting_at(start), ..params };
            self.launch_rows(args, kv, rows, splits, slots, &params);
        }
    }

    fn launch_rows(
        &self,
        args: &AttendArgs<'_>,
        kv: &SlotKv<'_>,
        rows: Range<usize>,
        splits: usize,
        slots: usize,
        params: &SlotDecodeParams,
    ) {
        let kv_heads = kv.layout.kv_heads;
        let head_blocks = head_blocks(args.heads, kv_heads);
        let rotates = kv.read_rope.is_some();
        let attention = if rotates { &self.rotating } else { &self.attention };
        let launch = Launch {
            grid: [extent(head_blocks), extent(splits), extent(rows.len())],
            block: BLOCK,
            shared_bytes: self.shared_bytes,
        };
        // SAFETY: the struct is the kernel's twin; the rows have room in the memory, other shapes
        // were checked by the caller and by the kernel that stored the live rows; tables, rules and
        // pages are as `SlotKv` promises. Launches follow each other and may use the same memory.
        unsafe { attention.launch(launch, params) };
        if kv.layout.notes.scores {
            let blocks = extent(slots.div_ceil(WEIGH_SLOTS));
            let grid = [blocks, extent(kv_heads), extent(rows.len())];
            // SAFETY: as above.
            unsafe {
                self.weigh.launch(Launch { grid, block: WEIGH_BLOCK, shared_bytes: 0 }, params);
            }
        }
    }
}

fn params(
    args: &AttendArgs<'_>,
    kv: &SlotKv<'_>,
    books: &CodeBooks,
    memory: &DecodeMemory,
    slots: usize,
) -> SlotDecodeParams {
    let [tokens, _] = args.out.dims();
    let rope = KeyRope::of_all_keys(args, kv);
    let layer_slots = args.layer * tokens * kv.layout.kv_heads * size_of::<i32>();
    SlotDecodeParams {
        step: SlotStep::new(args, kv, books, rope, args.scale * LOG2_E),
        slots: kv.slots.device_address() + layer_slots as u64,
        partials: memory.splits.partials_address(),
        arrivals: memory.splits.arrivals_address(),
        kept: memory.kept_address(),
        peaks: memory.peaks_address(),
        kept_slots: extent(slots),
    }
}

/// The name of the variant for keys and values of this format and width.
fn variant(layout: &SlotLayout) -> Option<String> {
    let page = match layout.keys {
        RowFormat::Bf16 => "bf16",
        RowFormat::F16 => "f16",
        RowFormat::Quantised(Quantiser::Asymmetric8) => "steps8",
        RowFormat::Quantised(Quantiser::Asymmetric4) => "steps4",
        RowFormat::Quantised(Quantiser::Dynamic8) => "dynamic8",
        RowFormat::Quantised(Quantiser::Float4) => "float4",
        RowFormat::Quantised(Quantiser::Fp8) => "e4m3",
        RowFormat::F32 => return None,
    };
    matches!(layout.key_dim, 64 | 128).then(|| format!("{page}_{}", layout.key_dim))
}

/// Of `slot_decode.cu`: for each warp some tiles of keys and values, with what lies beside them.
fn shared_bytes(layout: &SlotLayout) -> u32 {
    let row = layout.keys.row_bytes(layout.key_dim);
    let tile = 2 * TILE * (row + layout.keys.scale_bytes() + size_of::<i32>());
    let tiles = if row >= 128 { 3 } else { 6 };
    extent(BLOCK_WARPS * tiles * tile)
}

/// Splits of a row with so many slots or fewer, as `split_of` in `slot_decode.cu` cuts them.
fn most_splits(slots: usize) -> usize {
    let [shortest, longest] = SPLIT_SLOTS;
    slots.div_ceil(shortest).min(SPLITS).max(slots.div_ceil(longest))
}
