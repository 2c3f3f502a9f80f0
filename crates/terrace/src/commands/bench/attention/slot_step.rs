//! One step over full caches, with its memory where a device computes.

use anyhow::Result;
use terrace_device::{Buffer, DType, Device, Element, Shape, View, ViewMut};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{
    AttendArgs, CHUNK_TILE_TOKENS, GroupKv, HeadNorms, KvLayout, Ops, RopeAngles, RopeStyle,
    RowKinds, SlotKv, SlotLayout, SlotRule, SlotSide,
};

use super::step_shape::StepShape;

/// Layers are met in turn. Where a step's time is that of memory, all of them together are larger
/// than most caches, unless they are many.
const LEAST_BYTES_CPU: usize = 64 << 20;
const LEAST_BYTES_GPU: usize = 256 << 20;
const MOST_LAYERS: usize = 8;
const SEED: u64 = 1;

pub struct SlotStep {
    shape: StepShape,
    layout: SlotLayout,
    pages: Array,
    block_tables: Array,
    rules: Array,
    live_starts: Array,
    row_seqs: Array,
    chunk_tiles: Array,
    slots: Array,
    qkv: Array,
    /// Cosines and sines.
    angles: [Array; 2],
    scratch: Array,
    out: Array,
    /// Chunks are prompts'; single rows are generated tokens'.
    prompt_rows: Vec<u32>,
}

impl SlotStep {
    /// Fills caches with random tokens, and chooses slots for the new ones.
    pub fn new(ops: &Ops, shape: &StepShape) -> Result<Self> {
        let least_bytes = match ops.device() {
            Device::Cpu if shape.rows > 1 => 0,
            Device::Cpu => LEAST_BYTES_CPU,
            Device::Cuda(_) => LEAST_BYTES_GPU,
        };
        let layout = shape.layout(least_bytes.div_ceil(shape.bytes()).clamp(1, MOST_LAYERS));
        ops.prepare_slots(&layout)?;
        let (device, act) = (ops.device(), ops.activation());
        let StepShape { heads, kv_heads, head_dim, seqs, rows, .. } = *shape;
        let (tokens, table_pages) = (shape.tokens(), shape.seq_pages());
        let width = (heads + 2 * kv_heads) * head_dim;
        let random = &mut SplitMix::new(SEED);
        let scratch = ops.attend_scratch(&KvLayout::Slots(layout), heads);
        let order = random.shuffled(seqs * table_pages);
        let block_tables: Vec<i32> = order.into_iter().map(|page| page as i32).collect();
        let starts: Vec<i32> = (0..=seqs).map(|seq| (seq * rows) as i32).collect();
        let row_seqs: Vec<i32> = (0..tokens).map(|row| (row / rows) as i32).collect();
        let tiles = chunk_tiles(shape);
        let mut turns = |turn: fn(f32) -> f32| -> Vec<f32> {
            (0..tokens * head_dim / 2).map(|_| turn(random.number())).collect()
        };
        let angles = [turns(f32::cos), turns(f32::sin)];
        let place = |numbers: &[f32]| Array::of(&device, numbers, [tokens, head_dim / 2]);
        let mut step = SlotStep {
            pages: Array::empty(&device, DType::U8, [seqs * table_pages, layout.page_bytes()])?,
            rules: Array::of(
                &device,
                &shape.rule().to_words().repeat(seqs),
                [seqs, SlotRule::WORDS],
            )?,
            live_starts: Array::of(&device, &starts, [seqs + 1])?,
            row_seqs: Array::of(&device, &row_seqs, [tokens])?,
            chunk_tiles: Array::of(&device, &tiles, [tiles.len() / 2, 2])?,
            slots: Array::empty(&device, DType::I32, [layout.layers, tokens, kv_heads])?,
            qkv: Array::of_numbers(&device, act, random, [tokens, width])?,
            angles: [place(&angles[0])?, place(&angles[1])?],
            scratch: Array::empty(&device, scratch.dtype, [tokens, scratch.columns])?,
            out: Array::empty(&device, act, [tokens, heads * head_dim])?,
            block_tables: Array::of(&device, &block_tables, [seqs, table_pages])?,
            prompt_rows: if rows == 1 { Vec::new() } else { (0..tokens as u32).collect() },
            shape: *shape,
            layout,
        };
        step.fill_pages(&block_tables, random)?;
        ops.choose_slots(&mut step.split().0);
        Ok(step)
    }

    pub fn layers(&self) -> usize {
        self.layout.layers
    }

    pub fn attend(&mut self, ops: &Ops, layer: usize) {
        let (heads, head_dim) = (self.shape.heads, self.shape.head_dim);
        let (kv, rest) = self.split();
        let Rest { qkv, angles: [cos, sin], scratch, out, prompt_rows } = rest;
        let row_kinds = match prompt_rows {
            [] => RowKinds::Generated,
            prompt => RowKinds::Listed { prompt, generated: &[] },
        };
        let args = AttendArgs {
            qkv: qkv.view_mut(),
            heads,
            row_kinds,
            first_row: 0,
            norms: HeadNorms::NONE,
            angles: RopeAngles { cos: cos.view(), sin: sin.view() },
            rerotated: None,
            rope_style: RopeStyle::Halves,
            layer,
            scale: (head_dim as f32).powf(-0.5),
            window: None,
            scratch: scratch.view_mut(),
            out: out.view_mut(),
        };
        ops.attend(args, &mut GroupKv::Slots(kv));
    }

    fn split(&mut self) -> (SlotKv<'_>, Rest<'_>) {
        let kv = SlotKv {
            layout: self.layout,
            pages: self.pages.view_mut(),
            block_tables: self.block_tables.view(),
            rules: self.rules.view(),
            live_starts: self.live_starts.view(),
            slots: self.slots.view_mut(),
            rerotated_positions: None,
            scorers: &[],
            read_rope: None,
            singles: if self.shape.rows == 1 { self.shape.seqs } else { 0 },
            chunk_tiles: self.chunk_tiles.view(),
            row_seqs: self.row_seqs.view(),
        };
        let rest = Rest {
            qkv: &mut self.qkv,
            angles: &self.angles,
            scratch: &mut self.scratch,
            out: &mut self.out,
            prompt_rows: &self.prompt_rows,
        };
        (kv, rest)
    }

    /// Every page holds the same keys and values, but its own positions and scores. Slot `s` of a
    /// sequence holds token `s`.
    fn fill_pages(&mut self, block_tables: &[i32], random: &mut SplitMix) -> Result<()> {
        let (layout, pages) = (self.layout, self.shape.seq_pages());
        let page = random_page(&layout, random);
        for (i, &number) in block_tables.iter().enumerate() {
            let mut page = page.clone();
            for layer in 0..layout.layers {
                let offsets = layout.offsets(layer);
                for slot in 0..layout.kv_heads * layout.page_slots {
                    let position = i % pages * layout.page_slots + slot % layout.page_slots;
                    let at = offsets.positions + 4 * slot;
                    page[at..at + 4].copy_from_slice(&(position as i32).to_le_bytes());
                    if layout.notes.scores {
                        let at = offsets.scores + 4 * slot;
                        page[at..at + 4].copy_from_slice(&random.number().to_le_bytes());
                    }
                }
            }
            self.pages.write_row(number as usize, &page)?;
        }
        Ok(())
    }
}

/// What a step has beside its slots.
struct Rest<'a> {
    qkv: &'a mut Array,
    angles: &'a [Array; 2],
    scratch: &'a mut Array,
    out: &'a mut Array,
    prompt_rows: &'a [u32],
}

/// Sequence and first row of each tile.
fn chunk_tiles(shape: &StepShape) -> Vec<i32> {
    if shape.rows == 1 {
        return Vec::new();
    }
    let firsts = || (0..shape.rows).step_by(CHUNK_TILE_TOKENS).rev();
    (0..shape.seqs).flat_map(|seq| firsts().flat_map(move |row| [seq as i32, row as i32])).collect()
}

/// Random keys and values in all layers.
fn random_page(layout: &SlotLayout, random: &mut SplitMix) -> Vec<u8> {
    let mut page = vec![0; layout.page_bytes()];
    for layer in 0..layout.layers {
        for SlotSide { format, dim, rows, scales } in layout.sides(layer) {
            let (bytes, scale_bytes) = (format.row_bytes(dim), format.scale_bytes());
            for slot in 0..layout.kv_heads * layout.page_slots {
                let mut scale = vec![0; scale_bytes];
                let at = rows + slot * bytes;
                format.encode(&random.numbers(dim), &mut page[at..at + bytes], &mut scale);
                let at = scales + slot * scale_bytes;
                page[at..at + scale_bytes].copy_from_slice(&scale);
            }
        }
    }
    page
}

/// A tensor where the device computes.
struct Array {
    device: Device,
    buffer: Buffer,
    dtype: DType,
    shape: Shape,
}

impl Array {
    fn empty(device: &Device, dtype: DType, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        // No tensor of a device is empty.
        let bytes = (shape.count() * dtype.bytes()).max(16);
        let buffer = device.take(bytes, "a measurement")?;
        Ok(Array { device: device.clone(), buffer, dtype, shape })
    }

    fn of<T: Element>(device: &Device, values: &[T], shape: impl Into<Shape>) -> Result<Self> {
        let mut array = Self::empty(device, T::DTYPE, shape)?;
        if !values.is_empty() {
            array.write(View::of(values, [1, values.len()]).row_bytes(0))?;
        }
        Ok(array)
    }

    /// Random numbers as the type has them, f32 or bf16.
    fn of_numbers(
        device: &Device,
        dtype: DType,
        random: &mut SplitMix,
        shape: impl Into<Shape>,
    ) -> Result<Self> {
        let mut array = Self::empty(device, dtype, shape)?;
        let numbers = random.numbers(array.shape.count());
        let bytes: Vec<u8> = match dtype {
            DType::F32 => numbers.into_iter().flat_map(f32::to_le_bytes).collect(),
            // The upper half of an f32 is a bf16.
            _ => {
                numbers.into_iter().flat_map(|x| [x.to_le_bytes()[2], x.to_le_bytes()[3]]).collect()
            }
        };
        array.write(&bytes)?;
        Ok(array)
    }

    fn view(&self) -> View<'_> {
        self.buffer.view(self.dtype, self.shape)
    }

    fn view_mut(&mut self) -> ViewMut<'_> {
        self.buffer.view_mut(self.dtype, self.shape)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &self.device {
            Device::Cpu => self.buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes),
            Device::Cuda(device) => {
                device.write(&self.buffer.view_mut(self.dtype, self.shape), bytes)?;
            }
        }
        Ok(())
    }

    fn write_row(&mut self, row: usize, bytes: &[u8]) -> Result<()> {
        match &self.device {
            Device::Cpu => {
                let at = row * bytes.len();
                self.buffer.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Device::Cuda(device) => {
                let rows = self.buffer.view_mut(self.dtype, self.shape).rows(row..row + 1);
                device.write(&rows, bytes)?;
            }
        }
        Ok(())
    }
}
