//! The gradient of looked-up rows, token by token.

/// `d_table[id] += d_out` for each token · d_out: `[tokens, hidden]` · d_table: `[vocab, hidden]`
pub(crate) fn gradient(ids: &[i32], d_out: &[f32], hidden: usize, d_table: &mut [f32]) {
    for (id, d_out) in ids.iter().zip(d_out.chunks_exact(hidden)) {
        let row = &mut d_table[*id as usize * hidden..][..hidden];
        row.iter_mut().zip(d_out).for_each(|(sum, d)| *sum += d);
    }
}
