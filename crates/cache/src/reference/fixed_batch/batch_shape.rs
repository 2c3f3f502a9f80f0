//! How large a fixed batch is in one layer.

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchShape {
    pub rows: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub slots: usize,
    pub scale: f32,
}
