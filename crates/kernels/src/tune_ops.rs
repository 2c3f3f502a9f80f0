//! The ops that a model is tuned with: forward ones that leave what gradients need, and gradients.
//!
//! Having a [`TuneOps`] is the proof that the device has them all. One form of a weight serves both
//! directions, so none is kept twice. "act" is the type of activations,
//! [`TuneOps::activation`]: f32 on the CPU. The residual stream, sums and all gradients are f32
//! everywhere. On the CPU [`Compute::Fast`](crate::Compute::Fast) products with weights and those
//! of attention round both sides to bf16.
//!
//! Views must lie where the ops compute. What a GPU cannot do when it is asked shows at the next
//! [`TuneOps::read`]; what wants memory of its own says at once if there is too little.

use terrace_device::cuda::PinnedPool;
use terrace_device::{BufferPool, DType, Device, Element, View, ViewMut, WorkerPool};

use crate::attention::replay::{
    self, ChunkAt, KeptRows, ReplayGradients, ReplayKernels, ReplayQueries, RowGradients,
};
use crate::cpu::cpu_options::Compute;
use crate::cpu_ops::CpuOps;
use crate::cuda::CudaTune;
use crate::elementwise::cast;
use crate::elementwise::clear;
use crate::elementwise::dropout::{self, Dropout};
use crate::elementwise::gate::{self, Activation, GateGradients};
use crate::elementwise::rms_norm::{self, RmsNormGradients};
use crate::elementwise::rope::{self, RopeAngles, RopeStyle};
use crate::elementwise::rope_angles::{self, RopeAnglesArgs};
use crate::elementwise::{embed, scale_columns};
use crate::error::Error;
use crate::linear::backward;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::in_training;
use crate::linear::linear::Linear;
use crate::linear::lora::{self, LoraBranch, LoraGradients};
use crate::linear::matrix::Matrix;
use crate::loss::cross_entropy::{self, HeadLossArgs};
use crate::op_clock::OpClock;
use crate::ops::{Ops, Table};
use crate::pages::choose_slots;
use crate::pages::slot_kv::SlotKv;
use crate::quantise::Quantiser;
use crate::quantise::round_rows;

#[derive(Clone, Copy)]
pub struct TuneOps<'a> {
    table: TuneTable<'a>,
    clock: Option<&'a OpClock>,
}

#[derive(Clone, Copy)]
enum TuneTable<'a> {
    Cpu(&'a CpuOps),
    Cuda(CudaTune<'a>),
}

use TuneTable::{Cpu, Cuda};

impl Ops {
    /// What a model is tuned with; an error if the device has no kernels for it.
    pub fn tuning(&self) -> Result<TuneOps<'_>, Error> {
        let table = match &self.table {
            Table::Cpu(cpu) => Cpu(cpu),
            Table::Cuda(ops) => Cuda(CudaTune { ops, kernels: ops.load_tune()? }),
        };
        Ok(TuneOps { table, clock: None })
    }
}

impl<'a> TuneOps<'a> {
    /// The same ops, each of which adds its time to a clock.
    #[must_use]
    pub fn timed(self, clock: &'a OpClock) -> Self {
        TuneOps { clock: Some(clock), ..self }
    }
}

impl TuneOps<'_> {
    /// Most slots that a layer can have.
    pub const SLOTS_MOST: usize = replay::SLOTS_MOST;

    /// Widest head that there is attention for.
    pub fn head_dim_most(&self) -> usize {
        match &self.table {
            Cpu(_) => Ops::MAX_HEAD_DIM,
            Cuda(_) => ReplayKernels::MAX_HEAD_DIM,
        }
    }

    /// Where arrays have to lie.
    pub fn device(&self) -> Device {
        match &self.table {
            Cpu(_) => Device::Cpu,
            Cuda(cuda) => Device::Cuda(cuda.ops.device().clone()),
        }
    }

    /// The type of what products read, and of queries, keys and values.
    pub fn activation(&self) -> DType {
        match &self.table {
            Cpu(_) => DType::F32,
            Cuda(cuda) => cuda.ops.activation(),
        }
    }

    pub fn compute(&self) -> Compute {
        match &self.table {
            Cpu(cpu) => cpu.compute(),
            Cuda(cuda) if cuda.ops.activation() == DType::F32 => Compute::F32,
            Cuda(_) => Compute::Fast,
        }
    }

    /// The host's threads, for work of the caller's between ops.
    pub fn workers(&self) -> &WorkerPool {
        match &self.table {
            Cpu(cpu) => cpu.workers(),
            Cuda(cuda) => cuda.ops.workers(),
        }
    }

    /// Where arrays of a pass are, which come and go.
    pub fn memory(&self) -> &BufferPool {
        match &self.table {
            Cpu(cpu) => &cpu.memory,
            Cuda(cuda) => &cuda.kernels.memory,
        }
    }

    /// Of the host, for what a device with memory of its own has no room for; `None` where arrays
    /// are the host's anyway.
    pub fn host_memory(&self) -> Option<&PinnedPool> {
        match &self.table {
            Cpu(_) => None,
            Cuda(cuda) => Some(&cuda.kernels.host_memory),
        }
    }

    /// Brings numbers of the host to where the ops compute; as many as the view has, dense.
    pub fn write<T: Element>(&self, mut to: ViewMut<'_>, numbers: &[T]) -> Result<(), Error> {
        match &self.table {
            Cpu(_) => to.as_mut_slice::<T>().copy_from_slice(numbers),
            Cuda(cuda) => {
                assert_eq!(to.dtype(), T::DTYPE, "type of numbers to be written");
                let bytes = View::of(numbers, [1, numbers.len()]).row_bytes(0);
                cuda.ops.device().write(&to, bytes)?;
            }
        }
        Ok(())
    }

    /// The numbers of a dense view, after everything that was computed so far.
    pub fn read<T: Element>(&self, from: View<'_>, numbers: &mut [T]) -> Result<(), Error> {
        match &self.table {
            Cpu(_) => numbers.copy_from_slice(from.as_slice()),
            Cuda(cuda) => {
                assert_eq!(from.dtype(), T::DTYPE, "type of numbers to be read");
                let count = numbers.len();
                let mut bytes = ViewMut::of(numbers, [1, count]);
                cuda.ops.device().read(from, bytes.row_bytes_mut(0))?;
            }
        }
        Ok(())
    }

    /// Zeros, of any shape
    pub fn clear(&self, x: ViewMut<'_>) {
        self.timing("clear", || match &self.table {
            Cpu(cpu) => clear::clear(&cpu.ctx, x),
            Cuda(cuda) => cuda.ops.device().clear(&x),
        });
    }

    /// from, to: act or f32 `[rows, dim]`; rows may be strided
    pub fn copy(&self, from: View<'_>, to: ViewMut<'_>) {
        self.timing("copy", || match &self.table {
            Cpu(cpu) => cast::cast(&cpu.ctx, from, to),
            Cuda(cuda) => cuda.kernels.rows.cast.cast(from, to),
        });
    }

    /// What blocks of `dim` numbers read as once a format has stored them · x, out: act
    /// `[rows, blocks * dim]`
    pub fn round_rows(&self, x: View<'_>, dim: usize, quantiser: Quantiser, out: ViewMut<'_>) {
        self.timing("round_rows", || match &self.table {
            Cpu(cpu) => round_rows::round_rows(&cpu.ctx, x, dim, quantiser, out),
            Cuda(cuda) => cuda.kernels.rows.round_rows.round(x, dim, Some(quantiser), out),
        });
    }

    /// Brings one product to the device.
    pub fn place(&self, weight: BiasedWeight) -> Result<Linear, Error> {
        match &self.table {
            Cpu(_) => Ok(Linear::of_weights(vec![weight])),
            Cuda(cuda) => cuda.ops.place(&[weight]),
        }
    }

    /// Brings a weight of f32 to the device, from a buffer that nobody else holds, to be changed.
    pub fn place_trained(&self, weight: Matrix) -> Result<Linear, Error> {
        match &self.table {
            Cpu(_) => Ok(Linear::of_weights(vec![BiasedWeight { weight, bias: None }])),
            Cuda(cuda) => cuda.ops.place_trained(weight),
        }
    }

    /// Leaves a weight on the host, of which a device with memory of its own gets a copy when it is
    /// [brought](Self::bring). `trained` ones are f32, from a buffer that nobody else holds.
    pub fn place_away(&self, weight: Matrix, trained: bool) -> Result<Linear, Error> {
        match &self.table {
            Cpu(_) => Ok(Linear::of_weights(vec![BiasedWeight { weight, bias: None }])),
            Cuda(cuda) => cuda.ops.place_away(weight, trained),
        }
    }

    /// A copy where the ops compute of a weight that [is away](Linear::is_away). `room` is a copy
    /// of another that is not needed any more.
    pub fn bring(&self, away: &Linear, room: Option<Linear>) -> Result<Linear, Error> {
        self.timing("bring", || match &self.table {
            Cpu(_) => panic!("on a CPU no weight is away"),
            Cuda(cuda) => cuda.ops.bring(away, room),
        })
    }

    /// Changes a weight that was placed to be trained.
    pub fn change(&self, linear: &mut Linear, f: impl FnOnce(&mut [f32])) -> Result<(), Error> {
        match &self.table {
            Cpu(_) => {
                let trained = linear.trained_mut();
                f(trained.expect("a trained weight is f32 and held once"));
                Ok(())
            }
            Cuda(cuda) => cuda.ops.change(linear, f),
        }
    }

    /// The weight of a product in f32, row by row, where it is kept so.
    pub fn numbers<'l>(&self, linear: &'l Linear) -> Option<&'l [f32]> {
        linear.numbers()
    }

    /// ids: i32 `[tokens]` · table: `[vocab, hidden]` · out: f32 `[tokens, hidden]`
    pub fn embed(&self, ids: View<'_>, table: &Linear, out: ViewMut<'_>) {
        self.timing("embed", || match &self.table {
            Cpu(cpu) => embed::embed(&cpu.ctx, ids, table.only_matrix(), out),
            Cuda(cuda) => cuda.ops.products.embed(ids, None, table.cuda().only(), out),
        });
    }

    /// `d_table[id] += d_out` for each token · d_table: f32 `[vocab, hidden]`
    pub fn embed_gradient(&self, ids: View<'_>, d_out: View<'_>, d_table: ViewMut<'_>) {
        self.timing("embed_gradient", || match &self.table {
            Cpu(cpu) => embed::embed_gradient(&cpu.ctx, ids, d_out, d_table),
            Cuda(cuda) => cuda.kernels.rows.embed_gradient.run(ids, d_out, d_table),
        });
    }

    /// x: f32 `[rows, dim]` or `[rows, heads, dim]` · weight: f32 `[dim]` · out: act, or f32
    pub fn rms_norm(&self, x: View<'_>, weight: View<'_>, eps: f32, out: ViewMut<'_>) {
        self.timing("rms_norm", || match &self.table {
            Cpu(cpu) => rms_norm::rms_norm(&cpu.ctx, x, weight, eps, out),
            Cuda(cuda) => {
                let [dim] = weight.dims();
                let rows = [x.shape().count() / dim, dim];
                let (x, out) = (x.reshape(rows), out.reshape(rows));
                cuda.kernels.rms_norm(out.dtype()).rms_norm(x, weight, eps, out);
            }
        });
    }

    pub fn rms_norm_gradients(&self, args: RmsNormGradients<'_>) {
        self.timing("rms_norm_gradients", || match &self.table {
            Cpu(cpu) => rms_norm::rms_norm_gradients(&cpu.ctx, args),
            Cuda(cuda) => cuda.kernels.rows.norm_gradients.run(args),
        });
    }

    /// `sum += delta` · sum: act or f32 `[rows, dim]` · delta: f32
    pub fn add(&self, sum: ViewMut<'_>, delta: View<'_>) {
        self.timing("add", || match &self.table {
            Cpu(cpu) => rms_norm::add(&cpu.ctx, sum, delta),
            Cuda(cuda) => cuda.kernels.rows.add.add(sum, delta),
        });
    }

    /// Some of x, the rest zeros · x, out: both act or both f32 `[rows, dim]`
    pub fn drop_out(&self, x: View<'_>, dropout: Dropout, out: ViewMut<'_>) {
        self.timing("drop_out", || match &self.table {
            Cpu(cpu) => dropout::drop_out(&cpu.ctx, x, dropout, out),
            Cuda(cuda) => cuda.kernels.rows.dropout.drop_out(x, dropout, out),
        });
    }

    /// `x += added` · x: act or f32 `[rows, dim]` · added: f32 `[dim]`
    pub fn add_to_columns(&self, x: ViewMut<'_>, added: View<'_>) {
        self.timing("add_to_columns", || match &self.table {
            Cpu(cpu) => scale_columns::add_to_columns(&cpu.ctx, x, added),
            Cuda(cuda) => cuda.kernels.rows.columns.add_to_columns(x, added),
        });
    }

    /// `out = x * factors` · x: f32 `[rows, dim]` · factors: f32 `[dim]` · out: act or f32
    pub fn scale_columns(&self, x: View<'_>, factors: View<'_>, out: ViewMut<'_>) {
        self.timing("scale_columns", || match &self.table {
            Cpu(cpu) => scale_columns::scale_columns(&cpu.ctx, x, factors, out),
            Cuda(cuda) => cuda.kernels.rows.columns.scale_columns(x, factors, out),
        });
    }

    /// `d_factors += Σ_rows d_out * x` · x, d_out: f32 `[rows, dim]` · d_factors: f32 `[dim]`
    pub fn factor_gradients(&self, x: View<'_>, d_out: View<'_>, d_factors: ViewMut<'_>) {
        self.timing("factor_gradients", || match &self.table {
            Cpu(cpu) => scale_columns::factor_gradients(&cpu.ctx, x, d_out, d_factors),
            Cuda(cuda) => cuda.kernels.rows.columns.factor_gradients(x, d_out, d_factors),
        });
    }

    /// `out = x * weight^T + bias` · x: act `[tokens, columns]` · out: act or f32 `[tokens, rows]`
    pub fn project(&self, x: View<'_>, weight: &Linear, out: ViewMut<'_>) {
        self.timing("project", || match &self.table {
            Cpu(cpu) => in_training::project(&cpu.ctx, x, weight, out),
            Cuda(cuda) => cuda.project(x, weight, out),
        });
    }

    /// `out += scale * (x * a^T) * b^T`, leaving `x * a^T` in inner · x: act `[tokens, columns]` ·
    /// inner: act `[tokens, rank]` · out: act or f32 `[tokens, rows]`
    pub fn add_branch(
        &self,
        x: View<'_>,
        branch: LoraBranch<'_>,
        inner: ViewMut<'_>,
        out: ViewMut<'_>,
    ) {
        self.timing("add_branch", || match &self.table {
            Cpu(cpu) => lora::add_branch(&cpu.ctx, x, branch, inner, out),
            Cuda(cuda) => cuda.add_branch(x, branch, inner, out),
        });
    }

    /// x: act · inner, d_inner: act
    pub fn lora_gradients(
        &self,
        branch: LoraBranch<'_>,
        args: LoraGradients<'_>,
    ) -> Result<(), Error> {
        self.timing("lora_gradients", || match &self.table {
            Cpu(cpu) => {
                lora::lora_gradients(&cpu.ctx, branch, args);
                Ok(())
            }
            Cuda(cuda) => cuda.lora_gradients(branch, args),
        })
    }

    /// norms: f32 `[rows]`, of the rows of `weight + scale * b * a`
    pub fn branch_row_norms(
        &self,
        weight: &Linear,
        branch: LoraBranch<'_>,
        norms: ViewMut<'_>,
    ) -> Result<(), Error> {
        self.timing("branch_row_norms", || match &self.table {
            Cpu(cpu) => {
                lora::branch_row_norms(&cpu.ctx, weight.only_matrix(), branch, norms);
                Ok(())
            }
            Cuda(cuda) => cuda.branch_row_norms(weight, branch, norms),
        })
    }

    /// `d_x += d_out * weight` · all f32
    pub fn input_gradient(
        &self,
        d_out: View<'_>,
        weight: &Linear,
        d_x: ViewMut<'_>,
    ) -> Result<(), Error> {
        self.timing("input_gradient", || match &self.table {
            Cpu(cpu) => {
                in_training::input_gradient(&cpu.ctx, d_out, weight, d_x);
                Ok(())
            }
            Cuda(cuda) => cuda.input_gradient(d_out, weight, d_x),
        })
    }

    /// `d_weight += d_out^T * x` · x: act, the others f32
    pub fn weight_gradient(
        &self,
        d_out: View<'_>,
        x: View<'_>,
        d_weight: ViewMut<'_>,
    ) -> Result<(), Error> {
        self.timing("weight_gradient", || match &self.table {
            Cpu(cpu) => {
                backward::weight_gradient(&cpu.ctx, d_out, x, 1.0, d_weight);
                Ok(())
            }
            Cuda(cuda) => cuda.weight_gradient(d_out, x, 1.0, d_weight),
        })
    }

    /// `d_bias += Σ_tokens d_out`
    pub fn bias_gradient(&self, d_out: View<'_>, d_bias: ViewMut<'_>) {
        self.timing("bias_gradient", || match &self.table {
            Cpu(_) => backward::bias_gradient(d_out, d_bias),
            Cuda(cuda) => cuda.kernels.rows.columns.column_sums(d_out, d_bias),
        });
    }

    pub fn rope_angles(&self, args: RopeAnglesArgs<'_>) {
        self.timing("rope_angles", || match &self.table {
            Cpu(cpu) => rope_angles::rope_angles(&cpu.ctx, args),
            Cuda(cuda) => cuda.ops.rope_angles.rope_angles(args),
        });
    }

    /// x: act `[tokens, heads, dim]`, in place
    pub fn rope(&self, x: ViewMut<'_>, angles: RopeAngles<'_>, style: RopeStyle) {
        self.timing("rope", || match &self.table {
            Cpu(cpu) => rope::rope(&cpu.ctx, x, angles, style),
            Cuda(cuda) => cuda.kernels.rows.rope.rotate(x, angles, style),
        });
    }

    /// The gradient of what was rotated, f32, becomes that of what it was before.
    pub fn rope_gradient(&self, d_x: ViewMut<'_>, angles: RopeAngles<'_>, style: RopeStyle) {
        self.timing("rope_gradient", || match &self.table {
            Cpu(cpu) => rope::rope_gradient(&cpu.ctx, d_x, angles, style),
            Cuda(cuda) => cuda.kernels.rows.rope.rotate_back(d_x, angles, style),
        });
    }

    /// `out = activation(gate) * up`, all act `[tokens, dim]`
    pub fn gate(&self, gate: View<'_>, up: View<'_>, kind: Activation, out: ViewMut<'_>) {
        self.timing("gate", || match &self.table {
            Cpu(cpu) => gate::gate(&cpu.ctx, gate, up, kind, out),
            Cuda(cuda) => cuda.ops.gate.gate(gate, up, kind, out),
        });
    }

    pub fn gate_gradients(&self, args: GateGradients<'_>) {
        self.timing("gate_gradients", || match &self.table {
            Cpu(cpu) => gate::gate_gradients(&cpu.ctx, args),
            Cuda(cuda) => cuda.kernels.rows.gate_gradients.run(args),
        });
    }

    /// Losses of a head's logits, and the gradients that are asked for. Targets are such as the
    /// head has.
    pub fn head_loss(&self, args: HeadLossArgs<'_>) -> Result<(), Error> {
        self.timing("head_loss", || match &self.table {
            Cpu(cpu) => {
                cross_entropy::head_loss(&cpu.ctx, args);
                Ok(())
            }
            Cuda(cuda) => cross_entropy::head_loss_on_cuda(cuda, args),
        })
    }

    /// Slots for a chunk's tokens by the rules that serve; see [`Ops::choose_slots`].
    pub fn choose_slots(&self, kv: &mut SlotKv<'_>) {
        self.timing("choose_slots", || match &self.table {
            Cpu(cpu) => choose_slots::choose_slots(&cpu.ctx, kv),
            Cuda(cuda) => cuda.ops.slots.choose_slots(kv),
        });
    }

    /// Writes a chunk's keys and values, act, into their slots, and keeps what was there; `slots`
    /// are i32 `[seqs * kv_heads, tokens]`.
    pub fn place_rows(
        &self,
        at: &ChunkAt,
        slots: View<'_>,
        rows: [View<'_>; 2],
        of_slots: [ViewMut<'_>; 2],
        positions: ViewMut<'_>,
        kept: KeptRows<'_>,
    ) {
        self.timing("place_rows", || match &self.table {
            Cpu(cpu) => replay::place_rows(&cpu.ctx, at, slots, rows, of_slots, positions, kept),
            Cuda(cuda) => {
                cuda.kernels.replay.place_rows(at, slots, rows, of_slots, positions, kept);
            }
        });
    }

    /// Undoes [`place_rows`](Self::place_rows); the gradients in the slots become the rows'.
    pub fn take_back_rows(
        &self,
        at: &ChunkAt,
        slots: View<'_>,
        kept: KeptRows<'_>,
        of_slots: [ViewMut<'_>; 2],
        positions: ViewMut<'_>,
        gradients: RowGradients<'_>,
    ) {
        self.timing("take_back_rows", || match &self.table {
            Cpu(cpu) => {
                let ctx = &cpu.ctx;
                replay::take_back_rows(ctx, at, slots, kept, of_slots, positions, gradients);
            }
            Cuda(cuda) => {
                let replay = &cuda.kernels.replay;
                replay.take_back_rows(at, slots, kept, of_slots, positions, gradients);
            }
        });
    }

    /// rows: act `[seqs * tokens, kv_heads * dim]` · positions: i32 `[seqs * kv_heads, slots]`, of
    /// the tokens that slots hold, -1 for none · out: act `[seqs * kv_heads, slots, dim]`
    pub fn gather_slots(&self, rows: View<'_>, positions: View<'_>, out: ViewMut<'_>) {
        self.timing("gather_slots", || match &self.table {
            Cpu(cpu) => replay::gather_slots(&cpu.ctx, rows, positions, out),
            Cuda(cuda) => cuda.kernels.replay.gather_slots(rows, positions, out),
        });
    }

    /// out: act `[seqs * row_tokens, heads * dim]` · log_sums: f32 `[seqs * row_tokens, heads]`;
    /// the chunk's rows are written
    pub fn attend_slots(
        &self,
        queries: ReplayQueries<'_>,
        out: ViewMut<'_>,
        log_sums: ViewMut<'_>,
    ) {
        self.timing("attend_slots", || match &self.table {
            Cpu(cpu) => replay::attend(&cpu.ctx, queries, out, log_sums),
            Cuda(cuda) => cuda.kernels.replay.attend(queries, out, log_sums),
        });
    }

    /// weights: f32 `[seqs * kv_heads, filled]`, what the chunk attended to
    pub fn weight_sums(
        &self,
        queries: ReplayQueries<'_>,
        log_sums: View<'_>,
        weights: ViewMut<'_>,
    ) {
        self.timing("weight_sums", || match &self.table {
            Cpu(cpu) => replay::weight_sums(&cpu.ctx, queries, log_sums, weights),
            Cuda(cuda) => cuda.kernels.replay.weight_sums(queries, log_sums, weights),
        });
    }

    pub fn attend_slots_gradients(&self, args: ReplayGradients<'_>) -> Result<(), Error> {
        self.timing("attend_slots_gradients", || match &self.table {
            Cpu(cpu) => {
                replay::attend_gradients(&cpu.ctx, args);
                Ok(())
            }
            Cuda(cuda) => cuda.attend_gradients(args),
        })
    }

    /// A GPU is waited for: its ops are only launched when they return.
    fn timing<T>(&self, op: &'static str, f: impl FnOnce() -> T) -> T {
        let Some(clock) = self.clock else { return f() };
        clock.time(op, || {
            let result = f();
            if let Cuda(cuda) = &self.table {
                // A failure shows where numbers are read.
                if let Err(error) = cuda.ops.device().synchronize() {
                    cuda.ops.device().fail(error);
                }
            }
            result
        })
    }
}
