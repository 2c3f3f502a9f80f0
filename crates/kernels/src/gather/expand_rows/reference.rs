//! The plain version, which serves on the host.

/// from: `[rows, dim]` · to: `[index, dim]`
pub fn expand_rows(from: &[f32], index: &[u32], dim: usize, to: &mut [f32]) {
    assert_eq!(to.len(), index.len() * dim, "rows to expand to");
    for (to, row) in to.chunks_exact_mut(dim).zip(index) {
        to.copy_from_slice(&from[*row as usize * dim..][..dim]);
    }
}
