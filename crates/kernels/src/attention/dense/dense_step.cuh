// What every kernel of dense attention knows of a step. To be included after pages.cuh.

struct DenseStep {
    LayerPages layer;
    /// Query [rows, heads, head_dim]
    const void *q;
    /// i32 [seqs, table_stride], i32 [seqs] (-1: no sequence)
    const i32 *block_tables, *past_tokens;
    /// i32 [rows], or null: row i is the next token of sequence i; and i32 [seqs + 1].
    const i32 *row_seqs, *live_starts;
    /// f32 or bf16 [rows, heads, head_dim]
    void *out;
    i32 table_stride, group, window, head_dim, out_type;
    /// The softmax's, times log2(e) for kernels that take powers of two.
    float scale;
};
