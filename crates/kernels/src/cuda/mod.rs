//! The ops of an NVIDIA GPU: which kernels, loaded how, launched with what.
//!
//! A kernel's text is a `.cu` file beside its launcher in the op's folder; its PTX is in `ptx/`,
//! written by `tools/ptx.py`. Here is what they share.

mod ptx;

pub(crate) use ptx::load;
