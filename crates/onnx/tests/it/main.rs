//! ONNX files that PyTorch exported, as they are and damaged.

mod exported_files;
mod odd_files;

/// The files were exported with the weights of this folder's models.
const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");

/// Of `tools/golden/ctr_onnx.py`.
fn exported(name: &str) -> Vec<u8> {
    std::fs::read(format!("{TESTDATA}/ctr_onnx/{name}.onnx")).expect("an exported file")
}
