//! Which elements of a head are rotated together.

/// Which elements of a head a rotation pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Element `i` with `i + dim / 2` (safetensors models).
    Halves,
    /// Element `2 i` with `2 i + 1` (Llama in GGUF files).
    Interleaved,
}
