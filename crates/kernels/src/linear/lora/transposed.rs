//! Rows of a branch's second matrix as columns.

/// b: `[rows, rank]` · gives `[rank, rows]`, the first numbers of `out`
pub(super) fn transposed<'o>(b: &[f32], rank: usize, out: &'o mut [f32]) -> &'o [f32] {
    let (rows, out) = (b.len() / rank, &mut out[..b.len()]);
    for (row, b) in b.chunks_exact(rank).enumerate() {
        for (k, b) in b.iter().enumerate() {
            out[k * rows + row] = *b;
        }
    }
    out
}
