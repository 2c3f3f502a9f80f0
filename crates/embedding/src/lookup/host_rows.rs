//! What a look-up in host memory found: the rows of different keys, and which one each key has.

/// Kept between look-ups, so that they need no new memory.
#[derive(Debug, Default)]
pub struct HostRows {
    pub(super) unique: Vec<i64>,
    pub(super) inverse: Vec<u32>,
    /// `[unique, dim]`
    pub(super) rows: Vec<f32>,
    pub(super) missed: Vec<u32>,
}

impl HostRows {
    /// Different keys.
    pub fn unique(&self) -> usize {
        self.unique.len()
    }

    /// Rows of the different keys: `[unique, dim]`
    pub fn rows(&self) -> &[f32] {
        &self.rows
    }

    /// The row of each key.
    pub fn inverse(&self) -> &[u32] {
        &self.inverse
    }
}
