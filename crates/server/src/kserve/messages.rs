//! The protocol's messages, as `build.rs` has compiled them from the files of `proto/`.

#![allow(clippy::all)]

tonic::include_proto!("inference");

/// The compiled files themselves.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
