//! The table of ops, chosen once for a device.

use terrace_device::{View, ViewMut};

use crate::matrix::Matrix;
use crate::paged_kv::PagedKv;

/// How the CPU's ops are chosen.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Worker threads, the caller's included.
    pub threads: usize,
}

/// Which elements of a head a rotation pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Element `i` with `i + dim / 2` (safetensors models).
    Halves,
    /// Element `2 i` with `2 i + 1` (Llama in GGUF files).
    Interleaved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Silu,
    GeluTanh,
}

/// Cosine and sine of each live row's rotation, each f32 `[tokens, rotary_dim / 2]`.
#[derive(Clone, Copy)]
pub struct RopeAngles<'a> {
    pub cos: View<'a>,
    pub sin: View<'a>,
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
    /// page dtype `[tokens, kv_heads, key_dim]`
    pub live_k: View<'a>,
    /// page dtype `[tokens, kv_heads, value_dim]`
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

pub struct Ops {}

impl Ops {
    pub fn cpu(_options: CpuOptions) -> Self {
        todo!()
    }

    /// ids: i32 `[tokens]` · table: `[vocab, hidden]` · out: f32 `[tokens, hidden]`
    pub fn embed(&self, _ids: View<'_>, _table: &Matrix, _out: ViewMut<'_>) {
        todo!()
    }

    /// x, out: f32 `[rows, dim]` (or `[rows, heads, dim]`: each head is a row) · weight: f32 `[dim]`
    pub fn rms_norm(&self, _x: View<'_>, _weight: View<'_>, _eps: f32, _out: ViewMut<'_>) {
        todo!()
    }

    /// As `rms_norm` in place over heads: x: f32 `[tokens, heads, dim]`, rows may be strided.
    pub fn rms_norm_heads(&self, _x: ViewMut<'_>, _weight: View<'_>, _eps: f32) {
        todo!()
    }

    /// `sum += delta`, then `out = rms_norm(sum)`; all f32 `[rows, dim]`.
    pub fn add_rms_norm(
        &self,
        _sum: ViewMut<'_>,
        _delta: View<'_>,
        _weight: View<'_>,
        _eps: f32,
        _out: ViewMut<'_>,
    ) {
        todo!()
    }

    /// `out = x * weight^T + bias` for each part · x: f32 `[tokens, columns of weight]`
    pub fn project(&self, _x: View<'_>, _parts: &mut [Projection<'_>]) {
        todo!()
    }

    /// positions: i32 `[tokens]` · inv_freq: f32 `[rotary_dim / 2]` · cos, sin: f32
    /// `[tokens, rotary_dim / 2]`, both multiplied by `scale`.
    pub fn rope_angles(
        &self,
        _positions: View<'_>,
        _inv_freq: View<'_>,
        _scale: f32,
        _cos: ViewMut<'_>,
        _sin: ViewMut<'_>,
    ) {
        todo!()
    }

    /// Rotates in place the first `rotary_dim` elements of each head · x: f32 `[tokens, heads, dim]`
    pub fn rope(&self, _x: ViewMut<'_>, _angles: RopeAngles<'_>, _style: RopeStyle) {
        todo!()
    }

    /// f32 to f32, f16 (saturating) or bf16, same shape; rows of `x` may be strided.
    pub fn cast(&self, _x: View<'_>, _out: ViewMut<'_>) {
        todo!()
    }

    pub fn paged_attention(&self, _args: AttentionArgs<'_>) {
        todo!()
    }

    /// Writes the live rows (page dtype, `[tokens, kv_heads, dim]`) into their slots.
    pub fn commit(
        &self,
        _live_k: View<'_>,
        _live_v: View<'_>,
        _kv: &mut PagedKv<'_>,
        _layer: usize,
    ) {
        todo!()
    }

    /// `out = activation(gate) * up`, all f32 `[tokens, dim]`; inputs may be strided.
    pub fn gate(&self, _gate: View<'_>, _up: View<'_>, _kind: Activation, _out: ViewMut<'_>) {
        todo!()
    }

    /// x: f32 `[tokens, dim]` · rows: i32 `[picked]` · out: f32 `[picked, dim]`
    pub fn gather_rows(&self, _x: View<'_>, _rows: View<'_>, _out: ViewMut<'_>) {
        todo!()
    }

    /// Copies whole pages · pages: u8 `[pages, page_bytes]` · pairs: i32 `[copies, 2]` (from, to)
    pub fn copy_pages(&self, _pages: ViewMut<'_>, _pairs: View<'_>) {
        todo!()
    }
}
