//! By how much each live row is rotated.

use terrace_device::View;

/// Cosine and sine of each live row's rotation, each f32 `[tokens, rotary_dim / 2]`.
#[derive(Clone, Copy)]
pub struct RopeAngles<'a> {
    pub cos: View<'a>,
    pub sin: View<'a>,
}
