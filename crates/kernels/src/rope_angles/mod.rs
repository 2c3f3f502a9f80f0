//! Cosine and sine of each token's rotation, computed once a step for all layers.
//!
//! positions: i32 `[tokens]` · inv_freq: f32 `[rotary_dim / 2]` · cos, sin: f32
//! `[tokens, rotary_dim / 2]`
//!
//! Roofline: one sine and cosine (about 40 ns) per pair and token; bound by arithmetic.

pub(crate) mod cuda;
pub(crate) mod reference;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu_ops::CpuOps;

/// A sine and cosine cost about as much as this many elements of an ordinary row op.
const ELEMENTS_PER_ANGLE: usize = 64;

pub(crate) fn rope_angles(
    ops: &CpuOps,
    positions: View<'_>,
    inv_freq: View<'_>,
    scale: f32,
    mut cos: ViewMut<'_>,
    mut sin: ViewMut<'_>,
) {
    let [tokens] = positions.dims();
    let [pairs] = inv_freq.dims();
    assert_eq!(cos.dims(), [tokens, pairs], "cos of rope_angles");
    assert_eq!(sin.dims(), [tokens, pairs], "sin of rope_angles");
    let (positions, inv_freq) = (positions.as_slice::<i32>(), inv_freq.as_slice::<f32>());
    let (cos, sin) = (SharedRows::<f32>::new(&mut cos), SharedRows::<f32>::new(&mut sin));
    ops.for_rows(tokens, pairs * ELEMENTS_PER_ANGLE, &|token| {
        // SAFETY: each row is one task's.
        let (cos, sin) = unsafe { (cos.row_mut(token), sin.row_mut(token)) };
        reference::angles(positions[token], inv_freq, scale, cos, sin);
    });
}
