//! The committed PTX, and which of it suits a GPU.

use std::io::Read;
use std::sync::Arc;

use flate2::read::ZlibDecoder;
use terrace_device::cuda::{CudaDevice, CudaModule};

use crate::error::Error;

#[path = "../../ptx/index.rs"]
#[rustfmt::skip]
mod index;

/// Compiles a variant of a kernel file for the device.
pub(crate) fn load(
    device: &Arc<CudaDevice>,
    file: &str,
    variant: &str,
) -> Result<CudaModule, Error> {
    let architectures: &[&str] = match device.compute_capability() {
        (9, 0) => &["90a", "80"],
        _ => &["80"],
    };
    let find = |architecture: &&str| {
        index::PTX
            .iter()
            .find(|entry| (entry.0, entry.1, entry.2) == (file, variant, *architecture))
    };
    let found = architectures.iter().find_map(find);
    let (.., deflated) = found.unwrap_or_else(|| panic!("no PTX of {file} for {variant}"));
    let mut text = String::new();
    ZlibDecoder::new(*deflated)
        .read_to_string(&mut text)
        .expect("PTX was deflated when it was written");
    Ok(device.module(&format!("{file} ({variant})"), &text)?)
}
