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
    Ok(device.module(&format!("{file} ({variant})"), &inflate(deflated))?)
}

fn inflate(deflated: &[u8]) -> String {
    let mut text = String::new();
    ZlibDecoder::new(deflated)
        .read_to_string(&mut text)
        .expect("PTX was deflated when it was written");
    text
}

#[cfg(test)]
mod tests {
    use terrace_device::DType;

    use super::{index, inflate};
    use crate::linear::matmul::matrix_kind::{MatrixKind, Packing};

    #[test]
    fn every_half_width_activation_has_its_kernels() {
        for activation in [DType::F16, DType::Bf16] {
            let mut wanted =
                ["rms_norm", "gate", "gemm"].map(|file| (file, activation.name().into())).to_vec();
            let packings = [Packing::S4, Packing::Q4, Packing::Q6, Packing::Q8];
            wanted.extend(packings.map(|packing| ("unpack", packing.variant(activation))));
            let dense = MatrixKind::Dense(activation);
            for kind in packings.map(MatrixKind::Packed).into_iter().chain([dense]) {
                wanted.extend(["panels", "tiles"].map(|file| (file, kind.variant(activation))));
                wanted.push(("embed", kind.name().into()));
            }
            for (file, variant) in wanted {
                let found = index::PTX.iter().filter(|ptx| (ptx.0, ptx.1) == (file, &*variant));
                let architectures: Vec<&str> = found.map(|ptx| ptx.2).collect();
                assert_eq!(architectures, ["80", "90a"], "{file} ({variant})");
            }
        }
    }

    /// A launch starts before the kernel before it has ended where the kernel waits for it: one
    /// that does not must never be compiled for Hopper, and one that does for nothing else.
    #[test]
    fn kernels_wait_for_their_inputs_on_hopper_alone() {
        for (file, variant, architecture, deflated) in index::PTX {
            let waits = inflate(deflated).contains("griddepcontrol.wait");
            assert_eq!(waits, *architecture == "90a", "{file} ({variant}) for {architecture}");
        }
    }
}
