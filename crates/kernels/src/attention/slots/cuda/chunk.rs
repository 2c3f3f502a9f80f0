//! Launches `slot_chunk.cu` and `slot_weights.cu`, or on other GPUs than Hopper `slot_chunk_mma.cu`
//! and `slot_weights_mma.cu`; and `slot_norm_weights.cu`.

use std::f32::consts::LOG2_E;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};
use terrace_device::{Buffer, DType, Device};

use super::key_rope::KeyRope;
use super::scratch::ScratchColumns;
use super::slot_step::SlotStep;
use crate::attention::attend_args::AttendArgs;
use crate::cuda::{CodeBooks, extent, kernel_params, load};
use crate::error::Error;
use crate::pages::row_format::RowFormat;
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_layout::SlotLayout;

/// What takes chunks of many rows, where there are kernels for it.
pub(super) struct Chunks {
    device: Arc<CudaDevice>,
    activation: DType,
    generation: &'static Generation,
    loaded: Mutex<Vec<Arc<ChunkKernels>>>,
}

impl Chunks {
    pub(super) fn new(device: &Arc<CudaDevice>, activation: DType, on_hopper: bool) -> Self {
        let generation = if on_hopper { &HOPPER } else { &AMPERE };
        Chunks { device: Arc::clone(device), activation, generation, loaded: Mutex::default() }
    }

    /// Loads what chunks over such slots go to; `None` where no kernels take them.
    pub(super) fn kernels(&self, layout: &SlotLayout) -> Result<Option<Arc<ChunkKernels>>, Error> {
        // In f32 all arithmetic is f32, which tensor cores do not have.
        let variant = variant(layout).filter(|_| self.activation != DType::F32);
        let Some(variant) = variant else { return Ok(None) };
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = loaded.iter().find(|kernels| kernels.suit(layout)) {
            return Ok(Some(Arc::clone(kernels)));
        }
        let kernels =
            Arc::new(ChunkKernels::load(&self.device, self.generation, &variant, layout)?);
        loaded.push(Arc::clone(&kernels));
        Ok(Some(kernels))
    }
}

/// The kernels of one generation of GPUs.
struct Generation {
    attention: &'static str,
    weights: &'static str,
    /// Threads of a block of attention, over half-width rows and over others.
    blocks: [u32; 2],
    /// Threads of a block that weighs slots, and how many it has.
    weigh_block: u32,
    weigh_slots: usize,
    is_hopper: bool,
}

/// One warpgroup copies, or two dequantise; two compute. Of those that weigh, one copies and four
/// compute.
const HOPPER: Generation = Generation {
    attention: "slot_chunk",
    weights: "slot_weights",
    blocks: [3 * 128, 4 * 128],
    weigh_block: 5 * 128,
    weigh_slots: 256,
    is_hopper: true,
};
/// Of every GPU since Ampere.
const AMPERE: Generation = Generation {
    attention: "slot_chunk_mma",
    weights: "slot_weights_mma",
    blocks: [128; 2],
    weigh_block: 128,
    weigh_slots: 128,
    is_hopper: false,
};

/// The kernels for one format of keys, one of values and one width of heads.
pub(super) struct ChunkKernels {
    generation: &'static Generation,
    layout: SlotLayout,
    attention: CudaKernel,
    /// Where there are scores.
    weights: Option<WeightKernels>,
}

struct WeightKernels {
    generation: &'static Generation,
    weigh: CudaKernel,
    /// Where norms of values may count.
    norm_weights: Option<NormWeights>,
}

/// Weighs slots by the norms of their values.
struct NormWeights {
    kernel: CudaKernel,
    /// f32 `[WEIGHTS]`
    weights: Buffer,
}

/// Rows of a tile of queries; on Hopper, of keys or values too.
const TILE_ROWS: usize = 128;
/// Rows of a tile of keys or values elsewhere, and of queries where slots are weighed.
const SHORT_TILE_ROWS: usize = 64;
const NORM_BLOCK: u32 = 1024;
/// Weights that are kept at once, 16 MB: of 32 sequences with 8 heads of 16,384 slots.
const WEIGHTS: usize = 4 * 1024 * 1024;

kernel_params! {
    /// Twin of `SlotChunkParams` in `slot_chunk.cuh`.
    struct SlotChunkParams: 232 bytes {
        step: SlotStep,
        tiles: u64,
        weights: u64,
        narrow_column: u32,
        weights_stride: u32,
        first_seq: u32,
    }
}

impl ChunkKernels {
    fn load(
        device: &Arc<CudaDevice>,
        generation: &'static Generation,
        variant: &str,
        layout: &SlotLayout,
    ) -> Result<Self, Error> {
        let attention =
            load(device, generation.attention, variant)?.kernel(generation.attention)?;
        attention.allow_shared(generation.attention_bytes(layout))?;
        let weights = match layout.notes.scores {
            true => {
                let weigh =
                    load(device, generation.weights, variant)?.kernel(generation.weights)?;
                weigh.allow_shared(generation.weigh_bytes(layout))?;
                let norm_weights = match layout.notes.value_norms {
                    true => Some(NormWeights::load(device)?),
                    false => None,
                };
                Some(WeightKernels { generation, weigh, norm_weights })
            }
            false => None,
        };
        Ok(ChunkKernels { generation, layout: *layout, attention, weights })
    }

    fn suit(&self, layout: &SlotLayout) -> bool {
        let known = |layout: &SlotLayout| {
            (layout.keys, layout.values, layout.key_dim, layout.value_dim, layout.notes)
        };
        known(layout) == known(&self.layout)
    }

    /// The rows of `chunk_tiles`. Of keys that are rotated for them the whole head is.
    pub(super) fn launch(&self, args: &AttendArgs<'_>, kv: &SlotKv<'_>, books: &CodeBooks) {
        let [tiles, _] = kv.chunk_tiles.dims();
        if tiles == 0 {
            return;
        }
        let launch = Launch {
            grid: [extent(args.heads), extent(tiles), 1],
            block: self.generation.blocks[usize::from(half_width(&self.layout).is_none())],
            shared_bytes: self.generation.attention_bytes(&self.layout),
        };
        let params = params(args, kv, books);
        // SAFETY: the struct is the kernel's twin; shapes were checked by the caller and by the
        // kernel that stored the live rows; tables, rules and pages are as `SlotKv` promises.
        unsafe { self.attention.launch(launch, &params) };
        if let Some(weights) = &self.weights {
            weights.launch(kv, &params);
        }
    }
}

impl NormWeights {
    fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let kernel = load(device, "slot_norm_weights", "any")?.kernel("slot_norm_weights")?;
        let home = Device::Cuda(Arc::clone(device));
        let weights = home.take(WEIGHTS * size_of::<f32>(), "weights of slots")?;
        Ok(NormWeights { kernel, weights })
    }
}

impl WeightKernels {
    /// All sequences of chunks, or as many at a time as there is room for weights.
    fn launch(&self, kv: &SlotKv<'_>, params: &SlotChunkParams) {
        let layout = &kv.layout;
        let [seqs, table_pages] = kv.block_tables.dims();
        let slots = (table_pages * layout.page_slots).next_multiple_of(self.generation.weigh_slots);
        let at_once = match self.norm_weights {
            Some(_) => WEIGHTS / (layout.kv_heads * slots),
            None => seqs,
        };
        assert!(0 < at_once, "{slots} slots of {} heads are too many", layout.kv_heads);
        for start in (kv.singles..seqs).step_by(at_once) {
            self.launch_seqs(layout, start..seqs.min(start + at_once), slots, params);
        }
    }

    fn launch_seqs(
        &self,
        layout: &SlotLayout,
        seqs: Range<usize>,
        slots: usize,
        params: &SlotChunkParams,
    ) {
        let address = |memory: &Buffer| memory.view(DType::F32, [1]).device_address();
        let params = SlotChunkParams {
            weights: self.norm_weights.as_ref().map_or(0, |norms| address(&norms.weights)),
            first_seq: extent(seqs.start),
            weights_stride: extent(slots),
            ..*params
        };
        let (kv_heads, seqs) = (extent(layout.kv_heads), extent(seqs.len()));
        let launch = Launch {
            grid: [extent(slots / self.generation.weigh_slots), kv_heads, seqs],
            block: self.generation.weigh_block,
            shared_bytes: self.generation.weigh_bytes(layout),
        };
        // SAFETY: as for the attention before it, whose logarithms and queries it reads; the
        // weights of these sequences have room.
        unsafe { self.weigh.launch(launch, &params) };
        if let Some(norms) = &self.norm_weights {
            let grid = [kv_heads, seqs, 1];
            // SAFETY: as above; it reads the weights just written.
            unsafe {
                norms.kernel.launch(Launch { grid, block: NORM_BLOCK, shared_bytes: 0 }, &params);
            }
        }
    }
}

fn params(args: &AttendArgs<'_>, kv: &SlotKv<'_>, books: &CodeBooks) -> SlotChunkParams {
    let rope = KeyRope::with_protected_keys(args, kv);
    SlotChunkParams {
        step: SlotStep::new(args, kv, books, rope, args.scale * LOG2_E),
        tiles: kv.chunk_tiles.device_address(),
        weights: 0,
        narrow_column: extent(ScratchColumns::new(&kv.layout, args.heads).rerotated()),
        weights_stride: 0,
        first_seq: 0,
    }
}

/// The name of the variant for keys and values of these formats and this width.
fn variant(layout: &SlotLayout) -> Option<String> {
    let SlotLayout { key_dim, value_dim, keys, values, .. } = *layout;
    let formats = [keys, values];
    let is_quantised = |format: &RowFormat| matches!(format, RowFormat::Quantised(_));
    // Room beside the decoded tiles is for one of other numbers than quantised ones.
    let dequantises = formats.iter().any(is_quantised) && !formats.contains(&RowFormat::F32);
    let tile = match half_width(layout) {
        Some(RowFormat::Bf16) => "bf16",
        Some(_) => "f16",
        None if dequantises => "quantised",
        None => return None,
    };
    let fits = key_dim == value_dim && matches!(key_dim, 64 | 128);
    fits.then(|| format!("{tile}_{key_dim}"))
}

/// The format of keys and values, where tensor cores multiply them as they are.
fn half_width(layout: &SlotLayout) -> Option<RowFormat> {
    let is_half = matches!(layout.keys, RowFormat::F16 | RowFormat::Bf16);
    (is_half && layout.keys == layout.values).then_some(layout.keys)
}

fn tile_bytes(layout: &SlotLayout) -> usize {
    TILE_ROWS * layout.key_dim * DType::F16.bytes()
}

/// The books of two formats.
const BOOK_BYTES: usize = (256 + 16) * size_of::<f32>();

impl Generation {
    /// Of attention on Hopper: a tile of queries, two of keys and two of values, barriers, the
    /// positions of four tiles. Elsewhere a tile of queries, two short ones of keys and values, or
    /// one to dequantise into, and the positions of four. To dequantise, the books, and a tile of
    /// each side as it is stored.
    fn attention_bytes(&self, layout: &SlotLayout) -> u32 {
        let is_half = half_width(layout).is_some();
        let row_bytes = |format: RowFormat| format.row_bytes(layout.key_dim);
        let stored_row = row_bytes(layout.keys) + row_bytes(layout.values);
        let (tiles, positions, rows) = match self.is_hopper {
            true => (4 * tile_bytes(layout) + 128, 4 * (TILE_ROWS + 8), TILE_ROWS),
            false => {
                let tiles = if is_half { 2 } else { 1 };
                (tiles * tile_bytes(layout), 4 * (SHORT_TILE_ROWS + 4), SHORT_TILE_ROWS)
            }
        };
        let dequantising = if is_half { 0 } else { BOOK_BYTES + rows * stored_row };
        extent(tile_bytes(layout) + tiles + positions * size_of::<i32>() + dequantising)
    }

    /// Of weighing on Hopper: two tiles of keys, four of queries and their logarithms, positions,
    /// eight barriers, the books. Elsewhere a tile of keys and two short ones of queries.
    fn weigh_bytes(&self, layout: &SlotLayout) -> u32 {
        let (tiles, queries, barriers) = match self.is_hopper {
            true => (6, 4 * TILE_ROWS, 8 * 8),
            false => (2, 2 * SHORT_TILE_ROWS, 0),
        };
        let numbers = (queries + self.weigh_slots) * size_of::<f32>();
        extent(tiles * tile_bytes(layout) + numbers + barriers + BOOK_BYTES)
    }
}
