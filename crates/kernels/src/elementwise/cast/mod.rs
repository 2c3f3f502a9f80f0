//! f32 rounded to the type that pages hold.
//!
//! x: f32, out: f32, f16 (saturating) or bf16, same shape; rows of both may be strided. In fp8
//! each head is one row with a scale ([`ByteFormat`]), whose four bytes follow it:
//! x: f32 `[tokens, heads, dim]`, out: `[tokens, heads, dim + 4]`.
//!
//! Roofline: 6 to 8 bytes per element; bound by cache bandwidth.

pub(crate) mod cuda;
pub(crate) mod reference;

use half::{bf16, f16};
use terrace_device::{DType, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::quantise::byte_format::ByteFormat;

pub(crate) fn cast(ctx: &CpuCtx, x: View<'_>, out: ViewMut<'_>) {
    if let Some(format) = ByteFormat::of(out.dtype()) {
        return to_fp8(ctx, x, format, out);
    }
    assert_eq!(x.shape(), out.shape(), "out of cast");
    match out.dtype() {
        DType::F32 => ctx.write_rows::<f32>(out, |row, out| out.copy_from_slice(x.row(row))),
        DType::F16 => ctx.write_rows(out, |row, out| ctx.simd.run(ToF16 { x: x.row(row), out })),
        DType::Bf16 => ctx.write_rows(out, |row, out| ctx.simd.run(ToBf16 { x: x.row(row), out })),
        other => panic!("cast to {}", other.name()),
    }
}

fn to_fp8(ctx: &CpuCtx, x: View<'_>, format: &ByteFormat, out: ViewMut<'_>) {
    let [tokens, heads, dim] = x.dims();
    assert_eq!(out.dims(), [tokens, heads, dim + size_of::<f32>()], "out of cast to fp8");
    ctx.write_rows::<u8>(out.into_bytes(), |token, out| {
        let heads = x.row::<f32>(token).chunks_exact(dim);
        for (head, out) in heads.zip(out.chunks_exact_mut(dim + size_of::<f32>())) {
            let (numbers, scale) = out.split_at_mut(dim);
            format.encode_row(head, numbers, scale);
        }
    });
}

struct ToF16<'a> {
    x: &'a [f32],
    out: &'a mut [f16],
}

impl Kernel for ToF16<'_> {
    fn reference(self) {
        reference::to_f16(self.x, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let (least, most) = (lanes.splat(-reference::F16_MOST), lanes.splat(reference::F16_MOST));
        for (x, out) in self.x.chunks(L::COUNT).zip(self.out.chunks_mut(L::COUNT)) {
            // In this order a NaN stays one.
            let x = lanes.min(most, lanes.max(least, lanes.read(x)));
            lanes.write_f16(x, out);
        }
    }
}

struct ToBf16<'a> {
    x: &'a [f32],
    out: &'a mut [bf16],
}

impl Kernel for ToBf16<'_> {
    #[inline(always)]
    fn reference(self) {
        reference::to_bf16(self.x, self.out);
    }

    /// The compiler makes vectors of the plain text.
    #[inline(always)]
    fn simd<L: Lanes>(self, _: L) {
        self.reference();
    }
}
