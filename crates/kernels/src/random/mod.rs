//! Random numbers from a seed, the same on every machine and device.

pub(crate) mod fill_random;
pub(crate) mod philox;
mod split_mix;

pub use split_mix::SplitMix;
