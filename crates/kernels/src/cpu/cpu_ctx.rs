//! What the CPU's ops run on: worker threads, their scratch memory and the instruction level.

use std::sync::{Mutex, PoisonError};

use terrace_device::{Buffer, DType, Element, SharedRows, Tasks, ViewMut, WorkerPool};

use super::converted_rows::ConvertedRows;
use super::cpu_level::CpuLevel;
use super::cpu_options::{Compute, CpuOptions};
use super::lanes::Simd;
use crate::error::Error;

/// Nothing is allocated after construction. Ops that are called from several threads take turns.
pub struct CpuCtx {
    pub(crate) pool: WorkerPool,
    pub(crate) simd: Simd,
    level: CpuLevel,
    compute: Compute,
    scratch: Vec<Mutex<Buffer>>,
    pub(crate) converted_rows: Mutex<ConvertedRows>,
    op_memory: Box<Mutex<Buffer>>,
}

impl CpuCtx {
    /// Widest row a product can have.
    pub const MAX_COLUMNS: usize = 1 << 16;
    /// Widest head attention can have.
    pub const MAX_HEAD_DIM: usize = 2048;
    /// Most query heads that can share a kv head.
    pub const MAX_GROUP_HEADS: usize = 256;

    pub fn new(options: CpuOptions) -> Result<CpuCtx, Error> {
        let best = CpuLevel::detect();
        let level = options.level.unwrap_or(best);
        let simd = Simd::detect(level).ok_or(Error::LevelMissing { wanted: level, best })?;
        let pool = WorkerPool::new(options.threads)?;
        let scratch = (0..options.threads)
            .map(|_| Buffer::zeroed(SCRATCH_FLOATS * size_of::<f32>(), "kernel scratch"))
            .map(|buffer| buffer.map(Mutex::new))
            .collect::<Result<_, _>>()?;
        let converted_rows = Mutex::new(ConvertedRows::new()?);
        let op_memory = Buffer::zeroed(OP_FLOATS * size_of::<f32>(), "memory between tasks")?;
        let (compute, op_memory) = (options.compute, Box::new(Mutex::new(op_memory)));
        Ok(CpuCtx { pool, simd, level, compute, scratch, converted_rows, op_memory })
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

    /// Calls `f` for each row, shared among the threads in runs worth the hand-over.
    pub(crate) fn for_rows(&self, rows: usize, row_elements: usize, f: &(dyn Fn(usize) + Sync)) {
        let task_rows = TASK_ELEMENTS.div_ceil(row_elements.max(1));
        self.pool.run(rows.div_ceil(task_rows), &|_, task| {
            let start = task * task_rows;
            (start..rows.min(start + task_rows)).for_each(f);
        });
    }

    /// As [`for_rows`](Self::for_rows), with each row of `out` to be written.
    pub(crate) fn write_rows<T: Element>(
        &self,
        mut out: ViewMut<'_>,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let out = SharedRows::<T>::new(&mut out);
        self.for_rows(out.rows(), out.width(), &|row| {
            // SAFETY: each row is one task's.
            f(row, unsafe { out.row_mut(row) });
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

/// Memory of one worker, 4 MiB and a little: a block of unpacked weights and the sums of a pair of
/// panels, or the keys, values and scores of a tile of attention. The operating system commits only
/// what is used.
pub(crate) const SCRATCH_FLOATS: usize = 16 * CpuCtx::MAX_COLUMNS + (8 << 10);

/// What tasks of an op leave to later ones, 32 MiB: the weights that 64 parts of a long chunk give
/// 16,384 slots of eight heads, or the sums of a long sequence's splits. The operating system
/// commits only what is used.
pub(crate) const OP_FLOATS: usize = 8 << 20;

/// Elements of a row op that are worth a hand-over to another thread (about 4 µs of work).
const TASK_ELEMENTS: usize = 16 * 1024;
