//! The CPU's ops: worker threads, their scratch memory and the instruction level.

use std::sync::{Mutex, PoisonError};

use terrace_device::{Buffer, DType, Tasks, View, ViewMut, WorkerPool};

use crate::cpu_level::CpuLevel;
use crate::error::Error;
use crate::lanes::Simd;
use crate::matrix::Matrix;
use crate::ops::{Activation, RopeAngles, RopeStyle};
use crate::paged_kv::PagedKv;
use crate::rope_angles::RopeFrequencies;
use crate::row_origins::RowOrigins;
use crate::strips::InputMemory;
use crate::{
    cast, commit, copy_pages, embed, gate, gather_rows, paged_attention, project, rms_norm, rope,
    rope_angles,
};

/// How the CPU's ops are chosen.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Worker threads, the caller's included.
    pub threads: usize,
    /// Instructions to use; `None` takes the best this CPU has.
    pub level: Option<CpuLevel>,
    pub compute: Compute,
}

/// The arithmetic of products; all else is in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// Weights are packed for the processor. Generated tokens meet them as 16-bit integers,
    /// prompts as bf16.
    Fast,
    /// Weights stay as they are, and are unpacked and multiplied in f32.
    F32,
}

/// One product of a shared input.
pub struct Projection<'a> {
    pub weight: &'a Matrix,
    /// f32 `[rows of weight]`
    pub bias: Option<View<'a>>,
    /// f32 `[tokens, rows of weight]`
    pub out: ViewMut<'a>,
}

pub struct AttentionArgs<'a> {
    /// f32 `[tokens, heads, key_dim]`
    pub q: View<'a>,
    /// Where the tokens come from.
    pub origins: RowOrigins<'a>,
    /// page dtype `[tokens, kv_heads, key_dim]`, in fp8 with four bytes more for each row's scale
    pub live_k: View<'a>,
    /// page dtype `[tokens, kv_heads, value_dim]`, in fp8 likewise
    pub live_v: View<'a>,
    pub kv: &'a PagedKv<'a>,
    /// Layer inside the group.
    pub layer: usize,
    pub scale: f32,
    /// Key `j` is visible to query `i` iff `i - j < window`.
    pub window: Option<usize>,
    /// f32 `[tokens, heads, value_dim]`
    pub out: ViewMut<'a>,
}

/// Nothing is allocated after construction. Calls from several threads take turns.
pub struct CpuOps {
    pub(crate) pool: WorkerPool,
    pub(crate) simd: Simd,
    level: CpuLevel,
    compute: Compute,
    scratch: Vec<Mutex<Buffer>>,
    pub(crate) inputs: Mutex<InputMemory>,
    op_memory: Box<Mutex<Buffer>>,
}

impl CpuOps {
    /// Widest row a product can have.
    pub const MAX_COLUMNS: usize = 1 << 16;
    /// Widest head attention can have.
    pub const MAX_HEAD_DIM: usize = 2048;
    /// Most query heads that can share a kv head.
    pub const MAX_GROUP_HEADS: usize = 256;

    pub fn new(options: CpuOptions) -> Result<CpuOps, Error> {
        let best = CpuLevel::detect();
        let level = options.level.unwrap_or(best);
        let simd = Simd::detect(level).ok_or(Error::LevelMissing { wanted: level, best })?;
        let pool = WorkerPool::new(options.threads)?;
        let scratch = (0..options.threads)
            .map(|_| Buffer::zeroed(SCRATCH_FLOATS * size_of::<f32>(), "kernel scratch"))
            .map(|buffer| buffer.map(Mutex::new))
            .collect::<Result<_, _>>()?;
        let inputs = Mutex::new(InputMemory::new()?);
        let op_memory = Buffer::zeroed(OP_FLOATS * size_of::<f32>(), "memory between tasks")?;
        let (compute, op_memory) = (options.compute, Box::new(Mutex::new(op_memory)));
        Ok(CpuOps { pool, simd, level, compute, scratch, inputs, op_memory })
    }

    pub fn compute(&self) -> Compute {
        self.compute
    }

    pub fn level(&self) -> CpuLevel {
        self.level
    }

    /// Whether attention of prompts goes through the matrix units.
    pub(crate) fn has_prompt_tiles(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.compute == Compute::Fast && matches!(self.simd, Simd::Amx(_));
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// The threads the ops run on, for work of the caller's between ops.
    pub fn workers(&self) -> &WorkerPool {
        &self.pool
    }

    /// ids: i32 `[tokens]` · table: `[vocab, hidden]` · out: f32 `[tokens, hidden]`
    pub fn embed(&self, ids: View<'_>, table: &Matrix, out: ViewMut<'_>) {
        embed::embed(self, ids, table, out);
    }

    /// x, out: f32 `[rows, dim]` (or `[rows, heads, dim]`: each head is a row) ·
    /// weight: f32 `[dim]`
    pub fn rms_norm(&self, x: View<'_>, weight: View<'_>, eps: f32, out: ViewMut<'_>) {
        rms_norm::rms_norm(self, x, weight, eps, out);
    }

    /// As `rms_norm` in place over heads: x: f32 `[tokens, heads, dim]`, rows may be strided.
    pub fn rms_norm_heads(&self, x: ViewMut<'_>, weight: View<'_>, eps: f32) {
        rms_norm::rms_norm_heads(self, x, weight, eps);
    }

    /// `sum += delta`, then `out = rms_norm(sum)`; all f32 `[rows, dim]`.
    pub fn add_rms_norm(
        &self,
        sum: ViewMut<'_>,
        delta: View<'_>,
        weight: View<'_>,
        eps: f32,
        out: ViewMut<'_>,
    ) {
        rms_norm::add_rms_norm(self, sum, delta, weight, eps, out);
    }

    /// `out = x * weight^T + bias` for each part · x: f32 `[tokens, columns of weight]`
    pub fn project(&self, x: View<'_>, parts: &mut [Projection<'_>]) {
        project::project(self, x, parts);
    }

    /// positions: i32 `[tokens]` · cos, sin: f32 `[tokens, rotary_dim / 2]`, both multiplied by
    /// `scale`.
    pub fn rope_angles(
        &self,
        positions: View<'_>,
        frequencies: RopeFrequencies<'_>,
        scale: f32,
        cos: ViewMut<'_>,
        sin: ViewMut<'_>,
    ) {
        rope_angles::rope_angles(self, positions, frequencies, scale, cos, sin);
    }

    /// Rotates in place the first `rotary_dim` elements of each head ·
    /// x: f32 `[tokens, heads, dim]`
    pub fn rope(&self, x: ViewMut<'_>, angles: RopeAngles<'_>, style: RopeStyle) {
        rope::rope(self, x, angles, style);
    }

    /// f32 to f32, f16 (saturating) or bf16, same shape, or heads to fp8 rows with their scales;
    /// rows of `x` may be strided.
    pub fn cast(&self, x: View<'_>, out: ViewMut<'_>) {
        cast::cast(self, x, out);
    }

    pub fn paged_attention(&self, args: AttentionArgs<'_>) {
        paged_attention::paged_attention(self, args);
    }

    /// Writes the live rows, as `paged_attention` takes them, into their slots.
    pub fn commit(&self, live_k: View<'_>, live_v: View<'_>, kv: &mut PagedKv<'_>, layer: usize) {
        commit::commit(live_k, live_v, kv, layer);
    }

    /// `out = activation(gate) * up`, all f32 `[tokens, dim]`; inputs may be strided.
    pub fn gate(&self, gate: View<'_>, up: View<'_>, kind: Activation, out: ViewMut<'_>) {
        gate::gate(self, gate, up, kind, out);
    }

    /// x: f32 `[tokens, dim]` · rows: i32 `[picked]` · out: f32 `[picked, dim]`
    pub fn gather_rows(&self, x: View<'_>, rows: View<'_>, out: ViewMut<'_>) {
        gather_rows::gather_rows(x, rows, out);
    }

    /// Copies whole pages · pages: u8 `[pages, page_bytes]` · pairs: i32 `[copies, 2]` (from, to)
    pub fn copy_pages(&self, pages: ViewMut<'_>, pairs: View<'_>) {
        copy_pages::copy_pages(pages, pairs);
    }

    /// Calls `f` for each row, shared among the threads in runs worth the hand-over.
    pub(crate) fn for_rows(&self, rows: usize, row_elements: usize, f: &(dyn Fn(usize) + Sync)) {
        let task_rows = TASK_ELEMENTS.div_ceil(row_elements.max(1));
        self.pool.run(rows.div_ceil(task_rows), &|_, task| {
            let start = task * task_rows;
            (start..rows.min(start + task_rows)).for_each(f);
        });
    }

    /// Lends `f` the memory for what tasks of an op leave to later ones.
    pub(crate) fn with_op_memory(&self, f: impl FnOnce(&mut [f32])) {
        let mut buffer = self.op_memory.lock().unwrap_or_else(PoisonError::into_inner);
        f(buffer.view_mut(DType::F32, [OP_FLOATS]).as_mut_slice());
    }

    /// Calls `f` for each task, shared among the threads, and lends it the memory of its worker.
    pub(crate) fn run_with_scratch(&self, tasks: usize, f: &(dyn Fn(&mut [f32], usize) + Sync)) {
        self.run_workers_with_scratch(tasks, &|scratch, tasks| {
            tasks.for_each(|task| f(scratch, task));
        });
    }

    /// As [`run_with_scratch`](Self::run_with_scratch), with all the tasks that a worker gets in
    /// one call, for those that have something to prepare.
    pub(crate) fn run_workers_with_scratch(
        &self,
        tasks: usize,
        f: &(dyn Fn(&mut [f32], Tasks<'_>) + Sync),
    ) {
        self.pool.run_workers(tasks, &|worker, tasks| {
            // Never contended: a worker index belongs to one thread at a time. Never poisoned in a
            // way that matters: nobody reads what an earlier task left. Once for all tasks, for
            // between two of them a lock would wait until the first has left the processor.
            let mut buffer = self.scratch[worker].lock().unwrap_or_else(PoisonError::into_inner);
            f(buffer.view_mut(DType::F32, [SCRATCH_FLOATS]).as_mut_slice(), tasks);
        });
    }
}

/// Memory of one worker, 4 MiB and a little: a block of unpacked weights and the sums of a panel,
/// or the keys, values and scores of a tile of attention. The operating system commits only what is
/// used.
pub(crate) const SCRATCH_FLOATS: usize = 16 * CpuOps::MAX_COLUMNS + (8 << 10);

/// What tasks of an op leave to later ones, 32 MiB: the weights that 64 parts of a long chunk give
/// 16,384 slots of eight heads, or the sums of a long sequence's stretches. The operating system
/// commits only what is used.
pub(crate) const OP_FLOATS: usize = 8 << 20;

/// Elements of a row op that are worth a hand-over to another thread (about 4 µs of work).
const TASK_ELEMENTS: usize = 16 * 1024;
