//! A step's queries, keys and values brought to where a GPU's attention reads them.
//!
//! qkv: act `[tokens, (heads + 2 kv_heads) * head_dim]` · cos, sin: f32
//! `[tokens, rotary_dim / 2]` · q: query type `[tokens, heads, head_dim]`
//!
//! Heads of queries and keys are normalised where the model asks for it, and rotated. Queries go to
//! `q`, keys and values straight to their slots: attention then finds all keys in pages. A token
//! whose slot is -1 is not kept. In a pure step keys and values go beside the pages first, and to
//! their slots once attention has read all it reads.
//!
//! The CPU does the same as `rms_norm_heads`, `rope`, `cast` and `commit` one after the other.

pub(crate) mod cuda;
pub(crate) mod live_heads;
