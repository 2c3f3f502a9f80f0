//! What kernels know of a step's queries, keys and values: the twins of `heads.cuh`.

use crate::arithmetic_class::activation_number;
use crate::attention::attend_args::AttendArgs;
use crate::cuda::{extent, kernel_params};
use crate::elementwise::rope::{RopeAngles, RopeStyle};
use crate::linear::vector::Vector;

kernel_params! {
    /// Queries, keys and values side by side, of heads of one width.
    pub(crate) struct LiveHeads: 80 bytes {
        qkv: u64,
        angles: Angles,
        /// 0 for none.
        q_norm: u64,
        k_norm: u64,
        heads: u32,
        head_dim: u32,
        rotary_dim: u32,
        row_stride: u32,
        q_column: u32,
        k_column: u32,
        v_column: u32,
        is_interleaved: u32,
        qkv_type: u32,
        eps: f32,
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Angles {
    cos: u64,
    sin: u64,
}

impl Angles {
    pub(crate) const NONE: Angles = Angles { cos: 0, sin: 0 };

    /// Of `tokens` rows.
    pub(crate) fn new(angles: RopeAngles<'_>, tokens: usize) -> Self {
        let [rows, pairs] = angles.cos.dims();
        assert_eq!(rows, tokens, "angles of attention");
        assert_eq!(angles.sin.dims(), [rows, pairs], "sines of attention");
        Angles { cos: angles.cos.device_address(), sin: angles.sin.device_address() }
    }
}

impl LiveHeads {
    pub(crate) fn new(args: &AttendArgs<'_>, kv_heads: usize, head_dim: usize) -> Self {
        let AttendArgs { heads, norms, angles, .. } = *args;
        let qkv = args.qkv.as_view();
        let ([tokens, columns], [_, pairs]) = (qkv.dims(), angles.cos.dims());
        let rotary_dim = 2 * pairs;
        assert_eq!(columns, (heads + 2 * kv_heads) * head_dim, "columns of qkv");
        assert!(rotary_dim <= head_dim, "rotation of {rotary_dim} numbers in heads of {head_dim}");
        let norm = |norm: Option<&Vector>| norm.map_or(0, |norm| norm.view().device_address());
        LiveHeads {
            qkv: qkv.device_address(),
            angles: Angles::new(angles, tokens),
            q_norm: norm(norms.query),
            k_norm: norm(norms.key),
            heads: extent(heads),
            head_dim: extent(head_dim),
            rotary_dim: extent(rotary_dim),
            row_stride: extent(qkv.row_stride()),
            q_column: 0,
            k_column: extent(heads * head_dim),
            v_column: extent((heads + kv_heads) * head_dim),
            is_interleaved: u32::from(args.rope_style == RopeStyle::Interleaved),
            qkv_type: u32::from(activation_number(qkv.dtype())),
            eps: norms.eps,
        }
    }
}
